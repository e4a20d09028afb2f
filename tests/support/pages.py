"""Pages of the documentation as tests see them: commands with what they print, and files that a page spells out."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

from openane.cli import main

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r'```\w+ title="([^"]+)"\n(.*?)```', re.DOTALL)
_TIMES = re.compile(r"\d+\.\d+ ms")


def steps(page: str, fence: str = "console") -> list[tuple[str, list[str]]]:
    """Every command of a page's blocks and the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(rf"```{fence}\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def printed(command: str) -> str:
    """What a command prints to both streams. `ane` runs in this process, `python` is this Python."""
    words = shlex.split(command)
    if words[0] == "ane":
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(words[1:])
        return out.getvalue()
    if words[0] == "python":
        command = shlex.join([sys.executable, *words[1:]])
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True).stdout


def check_steps(found: list[tuple[str, list[str]]]) -> None:
    """Runs the commands in this folder and compares what they print: `...` stands for anything, and so do times."""
    for command, lines in found:
        text = _TIMES.sub("0.0 ms", printed(command))
        shown = _TIMES.sub("0.0 ms", "\n".join(lines))
        expected = ".*".join(re.escape(part) for part in shown.split("...")) + r"\s*"
        assert re.fullmatch(expected, text, re.DOTALL), f"{command}\nprints\n{text}\nthe page shows\n{shown}"


def write_files(page: str) -> None:
    """Writes the files that blocks with a title spell out into this folder."""
    for name, text in _FILE.findall(page):
        Path(name).write_text(text)


def plain_code(page: str) -> list[str]:
    """The blocks of Python that are no files, in order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)
