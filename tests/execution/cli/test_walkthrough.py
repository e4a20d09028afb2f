"""The walk through one program in the documentation: its commands run and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from openane.cli import main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "walkthrough.md").read_text()


README = (ROOT / "README.md").read_text()


def steps(page: str = PAGE, fence: str = "console") -> list[tuple[str, list[str]]]:
    """Every command of a page and the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(rf"```{fence}\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def printed(command: str) -> str:
    """What a command prints to both streams."""
    words = shlex.split(command)
    if words[0] == "ane":
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(words[1:])
        return out.getvalue()
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True).stdout


def pattern(lines: list[str]) -> str:
    """The shown lines as an expression; `...` stands for anything."""
    return ".*".join(re.escape(part) for part in "\n".join(lines).split("...")) + r"\s*"


def test_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "walkthrough", tmp_path / "examples" / "walkthrough")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))  # what is compiled for the first time says no more
    assert len(steps()) > 10
    for command, lines in steps():
        text = printed(command)
        assert re.fullmatch(pattern(lines), text, re.DOTALL), f"{command}\nprints\n{text}\nthe page shows\n" \
            + "\n".join(lines)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        exec(compile(code, "walkthrough.md", "exec"), {})
    text = out.getvalue()
    assert "post activation relu -> none  (NE.MACCfg.NonlinearMode)" in text
    assert "bytes changed" in text
    assert "task 0: coefficients of core 1: " in text


def test_the_readme_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))  # what is compiled for the first time says no more
    tour = README.partition("## One minute")[2].partition("## Status")[0]
    times = re.compile(r"\d+\.\d+ ms")
    found = steps(re.sub(r"```python.*?```", "", tour, flags=re.DOTALL), fence="")
    assert [command.split()[1] for command, _ in found] == ["compile", "info", "dis", "verify", "run", "profile",
                                                            "compile", "run", "run"]
    for command, lines in found:
        text = times.sub("0.0 ms", printed(command))
        shown = pattern([times.sub("0.0 ms", line) for line in lines])
        assert re.fullmatch(shown, text, re.DOTALL), f"{command}\nprints\n{text}"
    [code] = re.findall(r"```python\n(.*?)```", tour, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
