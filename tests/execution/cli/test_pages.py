"""Pages of the documentation that show commands: each runs as written and prints what the page shows."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from socket import socket

import numpy as np
import pytest
from support.pages import ROOT, check_steps, plain_code, shown, steps, write_files

from openane.cli import main

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if steps(path.read_text()))

PORT = "8437"
"""What a page serves at; tests that run at once need ports of their own."""


def test_there_are_pages_to_run() -> None:
    assert {"index.md", "walkthrough.md", "tutorials/first_model.md", "tutorials/transformer_block.md",
            "tutorials/training.md", "tutorials/serving.md"} <= set(PAGES)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "walkthrough.md"])
def test_a_page_runs_as_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    page = (DOCS / name).read_text().replace(PORT, str(port))
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    write_files(page)
    check_steps(steps(page))
    for code in plain_code(page):
        exec(compile(code, name, "exec"), {})


OF_A_MODEL = ("checking.md", "precision.md", "quantising.md", "profile.md", "start/anywhere.md", "start/asahi.md",
              "start/mac.md")
"""Pages with commands on files that the reader has."""
ELSEWHERE = ("--device macos", "--device linux:0", "--compiler apple", "apple.hwx", "bench")
"""Words of commands that need an engine, or take minutes without one."""


@pytest.mark.parametrize("name", OF_A_MODEL)
def test_commands_on_a_model_of_the_readers_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    for name_of_model in ("model.onnx", "network.onnx", "examples/digits/digits.onnx"):
        Path(name_of_model).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", name_of_model)
    samples = np.random.default_rng(0).random((4, 1, 1, 8, 8)).astype(np.float32)
    np.save("image.npy", samples[0])
    Path("samples").mkdir()
    for number, sample in enumerate(samples):
        np.savez(f"samples/{number}.npz", image=sample)
    assert main(["compile", "network.onnx", "-o", "network.ane"]) == 0
    here = [command for command in shown((DOCS / name).read_text()) if not any(word in command for word in ELSEWHERE)]
    assert here
    for command in here:
        assert main(shlex.split(command)[1:]) == 0, command
