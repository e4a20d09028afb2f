"""Pages of the documentation as tests see them: commands with what they print, and files that a page spells out."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from openane.cli import main

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r'```\w+ title="([^"]+)"\n(.*?)```', re.DOTALL)
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
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


def shown(page: str) -> list[str]:
    """Whole `ane` commands of all blocks, after a prompt or without one, and without the remark behind them."""
    lines = "\n".join(re.sub(r"\\\n *", "", block) for block in BLOCK.findall(page))
    found = re.findall(r"^ *(?:\$ )?(?:ane simdriver -- )?(ane [a-z]+ .*)$", lines, re.MULTILINE)
    return [re.sub("  +#.*| &$", "", line) for line in found]


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
    """Runs the commands in this folder and compares what they print: `...` stands for anything, and so do times.
    A command that ends in `&` goes on until `kill %1`, which shows what it prints at its end."""
    with contextlib.ExitStack() as ended:
        for command, lines in found:
            shown = _TIMES.sub("0.0 ms", "\n".join(lines))
            if command.endswith(" &"):
                running = ended.enter_context(_background(command))
                text = running.until(shown)
            else:
                text = running.end() if command == "kill %1" else printed(command)
            text = _TIMES.sub("0.0 ms", text)
            assert _alike(shown, text), f"{command}\nprints\n{text}\nthe page shows\n{shown}"


def _alike(shown: str, text: str) -> bool:
    return bool(re.fullmatch(".*".join(map(re.escape, shown.split("..."))) + r"\s*", text, re.DOTALL))


@contextlib.contextmanager
def _background(command: str) -> Iterator[_Running]:
    """An `ane` command that runs for the length of a `with` block at most."""
    with tempfile.TemporaryFile() as held:
        words = [sys.executable, "-m", "openane", *shlex.split(command)[1:-1]]
        with subprocess.Popen(words, stdout=held, stderr=subprocess.STDOUT) as process:
            try:
                yield _Running(process, held.fileno())
            finally:
                process.kill()


class _Running:
    """A command in the background and what it prints to both streams, in a file."""

    def __init__(self, process: subprocess.Popen[bytes], held: int) -> None:
        self._process, self._held, self._read = process, held, 0

    def until(self, shown: str) -> str:
        """What it printed when that is what the page shows, or when it ended or five minutes went by."""
        end = time.monotonic() + 300
        while not _alike(shown, text := self._printed()) and self._process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        self._read += len(text.encode())
        return text

    def end(self) -> str:
        """Terminates it; what it printed since."""
        self._process.terminate()
        self._process.wait(30)
        return self._printed()

    def _printed(self) -> str:
        return os.pread(self._held, 1 << 20, self._read).decode()


def write_files(page: str) -> None:
    """Writes the files that blocks with a title spell out into this folder."""
    for name, text in _FILE.findall(page):
        Path(name).write_text(text)


def plain_code(page: str) -> list[str]:
    """The blocks of Python that are no files, in order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)
