"""What one MIL operation states about itself: operands, shape rule, legality rules, reference numerics, lowering.

Each module of this package describes one operation (or a family that differs only in a function) and exports `OPS`,
a tuple of `Op`. `openane.ops.get_op` finds them by listing the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from openane.chips import Limits
from openane.engine import Post
from openane.engine.table import Table
from openane.graph import Node, TensorType

REQUIRED = object()

Reference = Callable[..., tuple[np.ndarray, ...]]
"""Called with every parameter by keyword: arrays as float32 (integers as they are), strings as str, tuples of them;
what the node leaves out is the parameter's default, None when it has none."""

Rule = Callable[[Node, Limits], bool]
"""True when the node obeys; the docstring is the sentence a user reads when it does not. `{kernel_width}` and the
other names of `Limits` in it stand for the chip's number (see rules.sentence)."""

Kind = Literal["tensor", "int32", "bool", "string"]
"""What an operand holds: "tensor" shares the operation's element type, the others are exactly what they say."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One keyword operand. `const` operands must be known at compile time. `default` REQUIRED: it has none;
    None: optional without a value (or with one that depends on another operand's shape); anything else is the value
    MIL assumes."""

    name: str
    const: bool = False
    variadic: bool = False
    default: Any = REQUIRED
    kind: Kind = "tensor"


@dataclass(frozen=True, slots=True)
class Op:
    """A MIL operation. `infer` gives the result types from the node's operands (outputs ignored) and raises
    GraphError when they do not fit. `lower` emits engine operations (see ops.lowering). `post` says how a function of
    one tensor is the neural engine's post stage: (Post, table or None), or None when it is not. `view`: the result has
    x's elements in the same order."""

    name: str
    parameters: tuple[Parameter, ...]
    infer: Callable[[Mapping[str, Any]], tuple[TensorType, ...]]
    reference: Reference
    rules: tuple[Rule, ...] = ()
    lower: Callable[[Node, Any], None] | None = None
    post: Callable[[Node, Any], tuple[Post, Table | None] | None] | None = None
    view: bool = False
