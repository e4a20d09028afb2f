"""A MIL program as plain records, names not resolved: what its text and its protobuf form have in common.

A rank-0 tensor type and its scalar type are the same type here.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from openane.graph.mil.lexer import Places
from openane.graph.mil.literals import Literal
from openane.graph.types import TensorType
from openane.record_classes import dataclass

OPEN = -1
"""Extent, in these records only, of a dimension the program leaves open (`?`): `build_graph` puts a number there."""

OPSETS = {"ios15": "1.0", "ios16": "1.0", "ios17": "1.0", "ios18": "1.3", "ios26": "1.3"}
"""Opset to program version. From 1.3 on scalars and strings are written without `tensor<..., []>`."""

OPSET_NAMES = {"CoreML5": "ios15", "CoreML6": "ios16", "CoreML7": "ios17", "CoreML8": "ios18", "CoreML9": "ios26"}
"""Opsets as the protobuf form calls them, to the names of the text."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared type: a tensor or scalar, a state holding one, or a list of some."""

    type: TensorType
    state: bool = False
    listed: bool = False
    """A list of values of `type`."""

    @property
    def open(self) -> bool:
        """Whether a dimension is left open."""
        return OPEN in self.type.shape


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of a name."""

    name: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class BlobFile:
    """A constant kept in a weight file: path as written, offset of its metadata entry."""

    type: TensorType
    path: str
    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant whose data is at hand: a read-only array of exactly `type`, or a string."""

    type: TensorType
    data: np.ndarray | str
    position: int = 0


Single = Reference | Literal | BlobFile | Immediate
Expression = Single | tuple[Single, ...]


@dataclass(slots=True)
class Statement:
    """`results = op(arguments)[attributes];`, at most one result for most operations."""

    results: list[tuple[Declared, str]]
    op: str
    arguments: dict[str, Expression]
    attributes: dict[str, Expression]
    position: int = 0
    blocks: list[MilBlock] = field(default_factory=list)


@dataclass(slots=True)
class MilBlock:
    """Statements within a statement: a branch, or the condition or the body of a loop."""

    inputs: list[tuple[Declared, str]]
    statements: list[Statement]
    outputs: list[Reference]


@dataclass(slots=True)
class MilFunction:
    """One function. `attributes` are kept as text, `defaults` are shapes to take for inputs that leave some open."""

    name: str
    opset: str
    inputs: list[tuple[Declared, str]]
    attributes: dict[str, str]
    statements: list[Statement]
    outputs: list[Reference]
    position: int = 0
    defaults: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class MilProgram:
    """A whole program: version, key-value pairs of `buildInfo`, functions; `places` finds lines for messages."""

    places: Places
    version: str
    information: dict[str, str] = field(default_factory=dict)
    functions: list[MilFunction] = field(default_factory=list)
