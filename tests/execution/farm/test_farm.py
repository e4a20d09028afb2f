"""`ane farm`: what is done, what is not done again, and what is said of models that fail."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import farm as benchmark
import pytest
from support.killing import ENVIRONMENT

from openane.cli import FAILED, INTERRUPTED, main
from openane.errors import AneError, FormatError
from openane.farm import FarmJob, Result, files, read_jobs, results_of, spread
from openane.farm.files import model_digest
from openane.farm.interrupted import uninterrupted
from openane.importers import write_mlpackage

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one small network and an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    write_mlpackage(benchmark.network(1), tmp_path / "network.mlpackage")
    return tmp_path


def farm(text: str, capsys: Capture, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit status and report of a farm of this configuration, done in this process."""
    Path("zoo.toml").write_text(text)
    status = main(["farm", "zoo.toml", "--workers", "0", "--json", *more])
    return status, json.loads(capsys.readouterr().out)


EVERYTHING = ('[farm]\nactions = ["profile", "compile", "check"]\n[[models]]\nfiles = "*.mlpackage"\n'
              'targets = ["h13", "m4"]\n')


def test_every_action_of_every_job(folder: Path, capsys: Capture) -> None:
    status, report = farm(EVERYTHING, capsys)
    assert status == 0
    assert (report["models"], report["jobs"]) == (1, 2)
    assert [(row["target"], row["profile"]["chip"]) for row in report["rows"]] == [("h13", "m1"), ("m4", "m4")]
    for row in report["rows"]:
        assert row["compile"]["tasks"] > 0
        assert row["check"]["right"]
        assert 0 < row["check"]["error"] < 0.01
        assert row["profile"]["time_us"] > 0
    assert main(["farm", "zoo.toml", "--report"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "1 model in 2 jobs"
    assert last.split()[:3] == ["network.mlpackage", "m4", "0"]


def test_what_is_known_is_not_done_again(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, ...]] = []

    def counted(job: FarmJob) -> list[Result]:
        done.append(job.actions)
        return results_of(job)

    monkeypatch.setattr("openane.farm.workers.results_of", counted)
    compiled = '[[models]]\nfiles = "*.mlpackage"\n'
    _, first = farm(compiled, capsys)
    assert farm(compiled, capsys) == (0, first)
    assert done == [("compile",)]
    farm(f"{compiled}actions = ['compile', 'profile']\n", capsys)
    assert done[1:] == [("profile",)]
    write_mlpackage(benchmark.network(2), folder / "network.mlpackage")
    farm(compiled, capsys)
    assert done[2:] == [("compile",)]
    (folder / "network.mlpackage").rename(folder / "other.mlpackage")
    assert farm(compiled, capsys)[1]["rows"][0]["model"] == "other.mlpackage"
    assert len(done) == 3  # what a model is called has no part in what it is


def test_a_model_that_fails_is_a_row(folder: Path, capsys: Capture) -> None:
    (folder / "a.onnx").write_bytes(b"no model")
    Path("zoo.toml").write_text(f'{EVERYTHING}[[models]]\nfiles = "a.onnx"\n')
    assert main(["farm", "zoo.toml", "--workers", "0"]) == FAILED
    text = capsys.readouterr().out
    assert "check    2 done, errors: 1 FormatError" in text
    assert "FormatError: not an ONNX model" in text
    assert str(folder) not in text


@pytest.mark.parametrize(("more", "again"), [((), 0), (("--retry",), 1)])
def test_errors_are_done_again_when_that_is_asked_for(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
                                                      more: tuple[str, ...], again: int) -> None:
    def failing(job: FarmJob) -> list[Result]:
        calls.append(job)
        return [Result(action, {}, "MemoryError", "") for action in job.actions]

    calls: list[FarmJob] = []
    monkeypatch.setattr("openane.farm.workers.results_of", failing)
    text = '[[models]]\nfiles = "*.mlpackage"\n'
    status, report = farm(text, capsys)
    assert (status, report["rows"][0]["compile"]["error"]["type"]) == (1, "MemoryError")
    farm(text, capsys, *more)
    assert len(calls) == 1 + again


def test_a_report_does_nothing(folder: Path, capsys: Capture) -> None:
    status, report = farm(EVERYTHING, capsys, "--report")
    assert status == 0
    assert report["actions"]["compile"] == {"done": 0, "wrong": 0, "left": 2, "errors": {}}
    assert report["rows"][0]["compile"] is None


@pytest.mark.parametrize(("text", "said"), [
    ("x = ", "zoo.toml is no TOML"), ("[models]\n", r"must have \[\[models\]\]"), ("[modles]\n", "no table .modles"),
    ("[[models]]\n", r"models\[0\] must state files"), ('[[models]]\nfiles = "*.onnx"\n', "nothing in . is called"),
    ('[[models]]\nfiles = "*.mlpackage"\noptimise = [7]\n', r"optimise must be some of 0, 1, 2, 3, not \[7\]"),
    ('[[models]]\nfiles = "*.mlpackage"\nactions = ["run"]\n', "actions must be some of compile, check, profile"),
    ('[[models]]\nfiles = "*.mlpackage"\ntarget = "h13"\n', "no key 'target'; did you mean 'targets'"),
    ('[[models]]\nfiles = "*.mlpackage"\nprecision = "exact"\n', r"models\[0\].precision"),
    ('[[models]]\nfiles = "*.mlpackage"\nshapes = { x = 3 }\n', r"models\[0\].shapes.x must be a list"),
    ('[farm]\ntargets = ["m0"]\n[[models]]\nfiles = "*.mlpackage"\n', "m0"),
])
def test_what_is_wrong_in_a_configuration_is_said(folder: Path, text: str, said: str) -> None:
    Path("zoo.toml").write_text(text)
    with pytest.raises(AneError, match=said):
        read_jobs(Path("zoo.toml"))


def test_a_file_of_something_else_stays_as_it_is(folder: Path, capsys: Capture) -> None:
    other = folder / "other.sqlite"
    with closing(sqlite3.connect(other)) as file:
        file.execute("CREATE TABLE letters (text TEXT)")
    Path("zoo.toml").write_text(EVERYTHING)
    for path, content in ((other, other.read_bytes()), (folder / "text", b"these are no results at all" * 9)):
        path.write_bytes(content)
        assert main(["farm", "zoo.toml", "--workers", "0", "-o", str(path)]) == FAILED
        assert path.name in capsys.readouterr().err
        assert path.read_bytes() == content


def test_a_model_is_all_its_files(tmp_path: Path) -> None:
    model, weights = tmp_path / "model.mil", tmp_path / "weights" / "a.bin"
    weights.parent.mkdir()
    model.write_text('path = "weights/a.bin"')
    weights.write_bytes(b"1")
    first = model_digest(model)
    (tmp_path / "beside").write_text("")
    assert model_digest(model) == first
    weights.write_bytes(b"2")
    assert model_digest(model) != first


def test_a_model_that_is_as_it_was_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read, mapped = tmp_path / "model.mil", [], files.map_file
    monkeypatch.setattr(files, "map_file", lambda file: read.append(file) or mapped(file))
    model.write_text("as it was")
    first = model_digest(model)
    assert [model_digest(model) for _ in range(3)] == [first] * 3
    assert len(read) == 4  # it is so new that it might have been changed in between
    monkeypatch.setattr(files, "SETTLED", -1)
    assert [model_digest(model) for _ in range(4)] == [first] * 4
    assert len(read) == 5
    model.write_text("as it is!")
    os.utime(model, (1, 1))
    assert model_digest(model) != first


def test_only_folders_that_a_model_names_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("weights/deep", "home/of/others"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "data.bin").write_bytes(b"1")
    (tmp_path / "model.onnx").write_bytes(b"... weights/deep/data.bin ...")
    seen, listed = [], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: seen.append(folder.name) or listed(folder))
    first = model_digest(tmp_path / "model.onnx")
    assert seen == [tmp_path.name, "weights", "deep"]
    (tmp_path / "weights/deep/data.bin").write_bytes(b"2")
    assert model_digest(tmp_path / "model.onnx") != first


def test_folders_that_are_no_models_and_pipes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration whose `files` was "/" read every file of the machine; one that named a pipe waited for ever."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("openane.farm.files.map_file", lambda path: pytest.fail(f"{path} is read"))
    (tmp_path / "zoo.toml").write_text('[[models]]\nfiles = "one"\n[[models]]\nfiles = "two"\n')
    first, second = read_jobs(tmp_path / "zoo.toml")
    assert (first.model, second.model) == ("one", "two")
    assert first.key != second.key
    (tmp_path / "zoo.toml").write_text('[[models]]\nfiles = "pipe"\n')
    with pytest.raises(FormatError, match="pipe is neither a file nor a folder"):
        read_jobs(tmp_path / "zoo.toml")


def test_another_version_of_the_package_does_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("zoo.toml").write_text(EVERYTHING)
    jobs = read_jobs(Path("zoo.toml"))
    monkeypatch.setattr("openane.farm.actions.package_digest", lambda: "another")
    with pytest.raises(AneError, match="install the same on both"):
        list(spread(jobs, 0))


@pytest.mark.needs("distributed")
def test_no_scheduler_is_said(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.farm.workers.SECONDS", 1)
    Path("zoo.toml").write_text(EVERYTHING)
    assert main(["farm", "zoo.toml", "--scheduler", "tcp://127.0.0.1:9"]) == FAILED
    assert "there is no scheduler at tcp://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.needs("distributed", "cryptography", "minutes")
def test_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    """A hundred models with four workers: benchmarks/farm.py --models 100 --workers 4."""
    assert benchmark.main(["--models", "8", "--workers", "2"]) == 0


def test_a_folder_is_no_file_of_results(folder: Path, capsys: Capture) -> None:
    Path("zoo.toml").write_text(EVERYTHING)
    for place in (".", "nowhere/results.sqlite"):
        assert main(["farm", "zoo.toml", "--workers", "0", "-o", place]) == FAILED
        assert f"{place} cannot be used for results: unable to open database file" in capsys.readouterr().err


def test_an_interrupt_is_obeyed_behind_the_block() -> None:
    told = []

    def interrupted() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            told.append("went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert told == ["went on"]
    with uninterrupted():
        pass


@pytest.mark.needs("distributed", "cryptography")
@pytest.mark.parametrize("seconds", [0.0, 1.0, 3.0])
def test_an_interrupted_farm_ends_without_tracebacks(seconds: float, folder: Path) -> None:
    Path("zoo.toml").write_text(EVERYTHING)
    command = [sys.executable, "-m", "openane", "farm", "zoo.toml", "--workers", "2", "-o", "results.sqlite"]
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL) as process:
        while not Path("results.sqlite").exists():
            time.sleep(0.05)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode in (INTERRUPTED, 0)  # or it was done before
