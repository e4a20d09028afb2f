"""`ane farm --scheduler` with a worker of another machine: it does not see the models, and may lack what is here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from shutil import copy, which

import farm as benchmark
import pytest
from support.needs import lacking

from openane.cli import FAILED, main
from openane.errors import AneError
from openane.farm import Result, read_jobs, results_of, spread
from openane.farm.files import LARGEST_SENT, readable, unpacked
from openane.importers import write_mlpackage

ROOT = Path(__file__).parents[3]
HIDDEN = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']
"""A command after which a folder is given, which is empty for the command that follows."""
ZOO = """[farm]
actions = ["compile", "check", "profile"]
[[models]]
files = "*.mlpackage"
targets = ["h13", "m4"]
[[models]]
files = "*.onnx"
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package, a file, a damaged file and a configuration, and caches that are empty."""
    folder = tmp_path / "models"
    folder.mkdir()
    write_mlpackage(benchmark.network(1), folder / "network.mlpackage")
    copy(ROOT / "examples/digits/digits.onnx", folder)
    (folder / "damaged.onnx").write_bytes(b"no model")
    (folder / "zoo.toml").write_text(ZOO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def apart(models: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a scheduler and a worker that sees nothing of the models, and gives the scheduler's address."""
    tried = [*HIDDEN, str(models), "true"]
    if not which("unshare") or subprocess.run(tried, capture_output=True, check=False).returncode:
        lacking("namespaces", "a kernel that lets users make them, and the program unshare")
    with ExitStack() as running, closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        address = f"tcp://127.0.0.1:{port}"

        def started(*more: str) -> str:
            home = tmp_path / "worker"
            home.mkdir()
            dask = [sys.executable, "-m", "dask"]
            for command in ([*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
                            [*HIDDEN, str(models), *dask, "worker", address, "--no-dashboard", "--no-nanny",
                             "--nthreads", "1", *more]):
                process = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           env=os.environ | {"ANE_CACHE": str(home / "cache"), "TMPDIR": str(home)})
                running.callback(process.wait)
                running.callback(process.kill)
            return address

        yield started


@pytest.mark.needs("distributed")
def test_models_that_a_worker_does_not_see_are_sent(apart: Callable[..., str], models: Path, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    """Before, each was a row that said that there is no such file."""
    zoo = str(models / "zoo.toml")
    assert main(["farm", zoo, "--scheduler", apart(), "--json", "-o", "sent.sqlite"]) == FAILED  # one is damaged
    sent = capsys.readouterr().out
    assert main(["farm", zoo, "--workers", "0", "--json", "-o", "here.sqlite"]) == FAILED
    assert capsys.readouterr().out == sent
    report = json.loads(sent)
    assert report["actions"]["check"] == {"done": 3, "wrong": 0, "left": 0, "errors": {"FormatError": 1}}
    assert list((tmp_path / "worker/cache").iterdir())
    assert not list((tmp_path / "worker").rglob("openane-farm-*"))


@pytest.mark.needs("distributed")
def test_a_worker_that_lacks_a_package_is_said(apart: Callable[..., str], models: Path, tmp_path: Path) -> None:
    """Before, each model was a row that said to install onnx, as if it were missing where the farm is."""
    without = tmp_path / "without.py"
    without.write_text("import sys\nsys.modules['onnx'] = None\n")
    with pytest.raises(AneError, match="a worker lacks onnx, which is here: install the same extras"):
        list(spread(read_jobs(models / "zoo.toml"), 0, apart("--preload", str(without))))


def test_a_package_that_is_missing_is_told_from_a_model_that_is_refused(models: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    lacks = {(job.model, each.lacks) for job in read_jobs(models / "zoo.toml") for each in results_of(job) or ()}
    assert lacks == {("network.mlpackage", ""), ("digits.onnx", "onnx"), ("damaged.onnx", "onnx")}


def test_another_model_in_the_same_place_is_not_taken(models: Path) -> None:
    jobs = read_jobs(models / "zoo.toml")
    write_mlpackage(benchmark.network(2), models / "network.mlpackage")
    assert results_of(jobs[0]) is None
    with pytest.raises(AneError, match="has changed since the farm began"):
        list(spread(jobs, 0))


def test_files_that_are_sent_are_the_model(tmp_path: Path) -> None:
    model = tmp_path / "there" / "model.mil"
    (model.parent / "weights").mkdir(parents=True)
    model.write_text('path = "weights/a.bin"')
    (model.parent / "weights/a.bin").write_bytes(b"1")
    files = readable(str(model))
    assert files == {"": b'path = "weights/a.bin"', "weights/a.bin": b"1"}
    with unpacked("model.mil", files) as path:
        assert readable(str(path)) == files
    assert not path.parent.exists()


def test_what_is_no_model_or_too_large_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    assert readable(str(tmp_path / "folder")) is None
    file = tmp_path / "model.onnx"
    file.write_bytes(b"123")
    monkeypatch.setattr("openane.farm.files.LARGEST_SENT", 2)
    assert LARGEST_SENT > 2
    assert readable(str(file)) is None


def test_where_a_model_lies_has_no_part_in_what_is_found(models: Path) -> None:
    job = next(job for job in read_jobs(models / "zoo.toml") if job.model == "damaged.onnx")
    found: list[list[Result]] = [[replace(each, seconds=0.0) for each in results_of(job, files) or ()]
                                 for files in (None, readable(job.path))]
    assert found[0] == found[1]
    assert len(found[0]) == 3
