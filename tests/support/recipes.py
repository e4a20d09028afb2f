"""The recipes of CONTRIBUTING.md, read and followed: files written, edits made, commands run in a copy of the package.

A block of Python is the whole of a new file, a block of differences one or several edits of a file that is there; both
belong to the path in code marks before them. In a block without a language, lines that begin with `$ ane` are commands.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = "src/openane"
PATH = re.compile(r"`((?:\.?\w[\w-]*/)+[\w.]+)`")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """What a block does to the file at `path`."""

    path: str
    language: str
    text: str


@dataclass(frozen=True)
class Recipe:
    """One recipe: its text, what it writes, and the commands that prove it."""

    text: str
    changes: tuple[Change, ...]
    commands: tuple[str, ...]

    def new_files(self) -> list[str]:
        """Paths of the files it writes."""
        return [change.path for change in self.changes if change.language == "python"]


def read_recipes(text: str = TEXT) -> dict[str, Recipe]:
    """Every recipe by its heading."""
    _, _, part = text.partition("\n## Recipes\n")
    headings = re.split(r"^### (.*)$", part, flags=re.MULTILINE)[1:]
    return {heading: _read(body) for heading, body in zip(headings[::2], headings[1::2], strict=True)}


def _read(text: str) -> Recipe:
    changes, commands = [], []
    for found in FENCE.finditer(text):
        language, block = found[2], dedent(found[3])
        if language in ("python", "diff"):
            changes.append(Change(PATH.findall(text[:found.start()])[-1], language, block))
        else:
            commands += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ane ")]
    return Recipe(text, tuple(changes), tuple(commands))


def apply(changes: tuple[Change, ...], root: Path) -> None:
    """Writes the files and makes the edits below `root`, and nothing else. AssertionError where a file is there
    already, or what an edit stands between is not there exactly once."""
    for change in changes:
        path = root / change.path
        if change.language == "python":
            assert not path.exists(), f"{change.path} is there already"
            path.write_text(change.text, encoding="utf-8")
            continue
        text = path.read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", change.text, flags=re.MULTILINE):
            before, after = (_side(hunk, sign) for sign in "-+")
            assert text.count(before) == 1, f"{change.path} has {text.count(before)} times:\n{before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def _side(hunk: str, sign: str) -> str:
    """The lines of an edit before it (`-`) or after it (`+`); an empty line stands on both sides."""
    lines = (line if line.strip() else f" {line}" for line in hunk.splitlines(keepends=True))
    return "".join(line[1:] for line in lines if line[0] in f" {sign}")


class Copy:
    """A copy of the package in `folder` in which a recipe has been followed, and of other files it edits. The examples
    stand beside it, and commands leave their files there."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder = folder
        shutil.copytree(ROOT / PACKAGE, folder / PACKAGE)
        (folder / "examples").symlink_to(ROOT / "examples")
        for path in {change.path for change in recipe.changes if not change.path.startswith(PACKAGE)}:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)
        apply(recipe.changes, folder)
        self.environment = {name: value for name, value in os.environ.items() if name != "ANE_DEVICE"}
        self.environment |= {"PYTHONPATH": str(folder / "src"), "ANE_CACHE": str(folder / "cache")}

    def ane(self, command: str) -> str:
        """What a command prints that begins with `ane`, run by the copy. AssertionError when it fails."""
        name, *arguments = shlex.split(command)
        assert name == "ane"
        result = subprocess.run([sys.executable, "-m", "openane", *arguments], cwd=self.folder, env=self.environment,
                                capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout
