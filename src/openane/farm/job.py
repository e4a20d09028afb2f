"""A job: one model with one set of options. What it depends on is its key, under which its results are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openane.cache import source_digest
from openane.compiler.cache import ROOMS
from openane.formats.mapping import map_file
from openane.importers import READERS, folder_kind
from openane.version import __version__

ACTIONS = ("compile", "check", "profile")
"""What is done with a model, by the names of the commands that do it for one."""
SOURCE = (*ROOMS, "checking", "devices", "farm", "importers", "quantization", "report", "simulator")
"""The rooms of this package that results depend on."""
LARGEST_NAMING = 64 << 20
"""Bytes of a file that is searched for the names of others: one that has its weights elsewhere is smaller."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How a model is read and compiled, as the options of `ane compile` of these names."""

    target: str
    optimise: int = 0
    precision: str = "safe"
    on_host: str = "lookups"
    function: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The options as plain data."""
        return {"target": self.target, "optimise": self.optimise, "precision": self.precision, "on_host": self.on_host,
                "function": self.function, "shapes": {name: list(shape) for name, shape in self.shapes.items()}}


@dataclass(frozen=True, slots=True)
class FarmJob:
    """One model with one set of options. `model` is what it is called in reports, `path` where it is read, `digest` the
    model's own, `actions` what is to be done, `source` the digest of what does it."""

    model: str
    path: Path
    digest: str
    options: JobOptions
    actions: tuple[str, ...]
    source: str

    @property
    def key(self) -> str:
        """A digest of everything the results depend on, in hexadecimal."""
        return hashlib.sha256(repr((self.digest, self.options.document(), self.source)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Result:
    """What an action found, as plain data; or the type and text of the error it ended with. `seconds` it took."""

    action: str
    found: Mapping[str, Any] = field(default_factory=dict)
    error_type: str = ""
    error: str = ""
    seconds: float = 0.0

    @property
    def found_text(self) -> str:
        """What was found, as JSON."""
        return json.dumps(self.found, sort_keys=True)


def package_digest() -> str:
    """A digest of this package's version and of the source that results depend on."""
    return hashlib.sha256(f"{__version__} {source_digest(SOURCE)}".encode()).hexdigest()


def model_digest(path: Path) -> str:
    """A digest of a model's bytes: of all files of a folder, or of a file and of those below its folder that it names,
    as one with its weights elsewhere does. A folder that is no model is refused when it is loaded; here it is known by
    its name. OSError where files cannot be read."""
    digest = hashlib.sha256()
    if path.is_dir() and folder_kind(path) not in READERS:
        digest.update(str(path.absolute()).encode(errors="surrogateescape"))
        return digest.hexdigest()
    for name, file in _files(path):
        data = map_file(file)
        digest.update(f"{name} {len(data)}:".encode(errors="surrogateescape"))
        digest.update(data)
    return digest.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a model, with their names inside it; the name of the file itself has no part in what it is."""
    if path.is_dir():
        yield from ((each.relative_to(path).as_posix(), each) for each in sorted(path.rglob("*")) if each.is_file())
        return
    yield "", path
    if path.stat().st_size > LARGEST_NAMING:
        return
    text = path.read_bytes()
    yield from ((name, each) for name, each in sorted(_named(path.parent, "", text)) if each != path)


def _named(folder: Path, place: str, text: bytes) -> Iterator[tuple[str, Path]]:
    """The files below a folder whose names are in the text; a folder whose own is not has none."""
    for each in folder.iterdir():
        name = place + each.name
        if name.encode(errors="surrogateescape") in text:
            if each.is_file():
                yield name, each
            elif each.is_dir() and not each.is_symlink():
                yield from _named(each, f"{name}/", text)

