"""A job: one model with one set of options. What it depends on is its key, under which its results are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openane.cache import source_digest
from openane.compiler.cache import ROOMS
from openane.version import __version__

ACTIONS = ("compile", "check", "profile")
"""What is done with a model, by the names of the commands that do it for one."""
SOURCE = (*ROOMS, "checking", "devices", "farm", "importers", "quantization", "report", "simulator")
"""The rooms of this package that results depend on."""


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
    """One model with one set of options. `model` is what it is called in reports, `path` where the farm reads it (as
    text: pickled paths are of one version of Python), `digest` the model's own, `actions` what is to be done, `source`
    the digest of what does it."""

    model: str
    path: str
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
    """What an action found, as plain data; or the type and text of the error it ended with. `seconds` it took. `lacks`
    is the package whose absence was the error, which says nothing of the model."""

    action: str
    found: Mapping[str, Any] = field(default_factory=dict)
    error_type: str = ""
    error: str = ""
    seconds: float = 0.0
    lacks: str = ""

    @property
    def found_text(self) -> str:
        """What was found, as JSON."""
        return json.dumps(self.found, sort_keys=True)


def package_digest() -> str:
    """A digest of this package's version and of the source that results depend on."""
    return hashlib.sha256(f"{__version__} {source_digest(SOURCE)}".encode()).hexdigest()
