"""What tests of the macOS backend share: models, names of devices with failures, and a look at what stays behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

import openane as ane
from openane.compiler import Model
from openane.ops.build import GraphBuilder

SHAPE = (1, 8, 1, 16)
ONES = np.ones(SHAPE, np.float16)


def made(op: str) -> Model:
    """A model of one operation on x and twos."""
    builder = GraphBuilder()
    weights = builder.constant(np.full(SHAPE, 2, np.float16))
    return ane.compile(builder.finish({"y": builder.single(op, x=builder.input("x", "fp16", SHAPE), y=weights)}))


def kept_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; the test fails when one of them, a descriptor or a process stays."""
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    descriptors, children = len(os.listdir("/dev/fd")), running()
    yield tmp_path / "t"
    gc.collect()  # exceptions that were caught hold what was open in their frames
    assert not list((tmp_path / "t").iterdir())
    assert len(os.listdir("/dev/fd")) == descriptors
    assert running() == children


def running() -> set[int]:
    """Processes this one started, zombies included, where the system tells."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(map(int, listed.read_text().split())) if listed.exists() else set()


def device(place: Path, inject: str = "", **options: object) -> str:
    """The name of a device over the stand-in, whose temporary files and reports are in this place."""
    words = {"runtime": "simulated", "worker": "off", **options,
             "inject": ",".join(filter(None, (inject, f"temporary={place}", f"report={place.parent / 'report'}")))}
    return "macos?" + "&".join(f"{name}={quote(str(value))}" for name, value in words.items())


def problems(place: Path) -> str:
    """What the stand-in saw going wrong: locks, leaks, wrong numbers."""
    report = place.parent / "report"
    return report.read_text() if report.exists() else ""


def run(name: str, model: Model, times: int = 1) -> None:
    """Loads and runs a model of `made("mul")`."""
    with ane.open_device(name) as opened, opened.load(model) as executable:
        for _ in range(times):
            assert (executable.run({"x": ONES})["y"] == 2).all()
