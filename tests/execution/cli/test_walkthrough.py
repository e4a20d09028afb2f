"""The walk through one program in the documentation: its commands run and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest
from support.pages import ROOT, check_steps, plain_code, steps

from openane.cli import main

PAGE = (ROOT / "docs" / "walkthrough.md").read_text()
README = (ROOT / "README.md").read_text()


def test_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "walkthrough", tmp_path / "examples" / "walkthrough")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))  # what is compiled for the first time says no more
    found = steps(PAGE)
    assert len(found) > 10
    check_steps(found)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        [code] = plain_code(PAGE)
        exec(compile(code, "walkthrough.md", "exec"), {})
    text = out.getvalue()
    assert "post activation relu -> none  (NE.MACCfg.NonlinearMode)" in text
    assert "bytes changed" in text
    assert "task 0: coefficients of core 1: " in text


def test_the_readme_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))  # what is compiled for the first time says no more
    tour = README.partition("## One minute")[2].partition("## More")[0]
    found = steps(re.sub(r"```python.*?```", "", tour, flags=re.DOTALL), fence="")
    assert [command.split()[1] for command, _ in found] == ["compile", "dis", "run", "profile", "compile", "run"]
    check_steps(found)
    [code] = plain_code(tour)
    exec(compile(code, "README.md", "exec"), {})


def test_three_commands_lead_from_a_model_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^ane (.*)$", README.partition("## A model of your own")[2].partition("##")[0], re.MULTILINE)
    assert [main(command.split()) for command in commands] == [0, 0, 0]
    assert Path("report.html").stat().st_size > 10_000
