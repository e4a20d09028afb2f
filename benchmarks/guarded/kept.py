"""Programs kept in files as plain data, so that another state of the source reads what this one wrote; and the programs
of the commit the digests were listed with."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guarded.digests import LISTED, Digest, Key, layout_part
from guarded.groups import NotHere
from openane.compiler import Model
from openane.engine import DType
from openane.program import Buffer, Layout, Program, Role, Task

ROOT = Path(__file__).parents[2]
NEEDED = ("src", "benchmarks", "tests", "examples")
"""Folders that compiling the programs reads."""
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Of archives that git made: Python 3.11.2, which Debian 12 has, knows none yet."""


def programs_of(model: Model) -> list[Program]:
    """The programs of all functions."""
    return [program for function in model.functions.values() for program in function.programs]


def keep(folder: Path, key: Key, model: Model) -> None:
    """Writes the digest and the programs of a model to a file of the folder."""
    programs = [{"chip": program.chip, "name": program.name, "constants": bytes(program.constants),
                 "tasks": [(int(task.offset), tuple(map(int, task.words))) for task in program.tasks],
                 "buffers": [(b.name, int(b.slot), str(b.role), int(b.size), b.layout and layout_part(b.layout))
                             for b in program.buffers]} for program in programs_of(model)]
    with _file(folder, key).open("wb") as file:
        pickle.dump({"digest": asdict(Digest.of(model)), "programs": programs}, file)


def kept(folder: Path, key: Key) -> tuple[Digest, list[Program]] | None:
    """The digest and the programs that `keep` wrote; None when it did not."""
    path = _file(folder, key)
    if not path.exists():
        return None
    with path.open("rb") as file:
        read = pickle.load(file)
    return Digest(**read["digest"]), [
        Program(each["chip"], tuple(Task(words, offset) for offset, words in each["tasks"]), each["constants"],
                tuple(Buffer(name, slot, Role(role), size, layout and _layout(*layout))
                      for name, slot, role, size, layout in each["buffers"]), each["name"])
        for each in read["programs"]]


def _layout(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, interleave: int) -> Layout:
    return Layout(shape, strides, DType(dtype), interleave)  # type: ignore[arg-type]


def _file(folder: Path, key: Key) -> Path:
    return folder / f"{' '.join(key).replace('/', ' ')}.pickle"


@contextmanager
def reference(names: Sequence[str], root: Path = ROOT) -> Iterator[tuple[str, Path]]:
    """The commit of the working copy `root` that listed the digests last, and a folder where its source has kept its
    programs of these names. NotHere where there is no such commit, or its source does not run here."""
    commit = _git(root, "log", "-1", "--format=%H", "--", LISTED.relative_to(ROOT).as_posix()).decode().strip()
    if not commit:
        raise NotHere(f"no commit has {LISTED.name}")
    with TemporaryDirectory() as place:
        source, folder = Path(place) / "source", Path(place) / "programs"
        with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", commit, *NEEDED))) as archive:
            archive.extractall(source, **FILTER)
        folder.mkdir()
        command = [sys.executable, str(source / "benchmarks" / "guard.py"), "--programs", str(folder), *names]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source / "src")}, capture_output=True,
                              text=True)
        if done.returncode:
            raise NotHere(f"the source of {commit[:9]} does not run here: {' '.join(done.stderr.split()[-20:])}")
        yield commit[:9], folder


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise NotHere(f"git {arguments[0]} fails here") from None
    return done.stdout
