"""What one MIL operation states about itself: operands, shape rule, legality rules, reference numerics, lowering.

Each module of this package describes one operation (or a family that differs only in a function) and exports `OPS`,
a tuple of `Op`. `openane.ops.get_op` finds them by listing the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from openane.chips import Limits
from openane.engine import Post
from openane.engine.table import Table
from openane.graph import Node, Operand, TensorType, Value

REQUIRED = object()

Reference = Callable[..., tuple[np.ndarray, ...]]
"""Called with every parameter by keyword: arrays as float32 (integers as they are), strings as str, tuples of them;
what the node leaves out is the parameter's default, None when it has none."""

Rule = Callable[[Node, Limits], bool]
"""True when the node obeys; the docstring is the sentence a user reads when it does not. `{kernel_width}` and the
other names of `Limits` in it stand for the chip's number (see rules.sentence)."""

Upstream = Sequence[Value | None]
"""For each result of a node the derivative of the loss by it; None where the loss does not depend on that result."""

Gradient = Callable[[Node, Upstream, Any], Mapping[str, Operand]]
"""Given a node, what comes from upstream (never None throughout) and a builder (ops.gradients.Backward): the derivative
of the loss by each operand, of the operand's shape and element type, by the operand's name; a tuple for a variadic one.
Operands that are left out stop the gradient."""

Kind = Literal["tensor", "int32", "index", "number", "own", "bool", "string"]
"""What an operand holds: "tensor" shares the operation's element type, "index" is integers of 8, 16 or 32 bits (int32
where Python data is given), "number" real or integer (fp32), "own" a tensor of an element type
of its own, the others are exactly what they say."""


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


class Evidence(StrEnum):
    """How the engine's side of an operation is known."""

    APPLE = "apple"        # Apple's compiler emits the same engine operations
    COMPOSED = "composed"  # built from engine operations that Apple's programs prove
    INFERRED = "inferred"  # some encoding in it is shown by no Apple-made program at hand
    FOLDED = "folded"      # never runs: computed when the model is compiled


@dataclass(frozen=True, slots=True)
class Op:
    """A MIL operation. `infer` gives the result types from the node's operands (outputs ignored) and raises
    GraphError when they do not fit. `lower` emits engine operations (see ops.lowering). `post` says how a function of
    one tensor is the neural engine's post stage: (Post, table or None), or None when it is not. `view`: the result has
    x's elements in the same order, always or for the nodes the function accepts. `decompose` builds the operation from
    others instead of lowering it: given the node and a rewriter (ops.rewriter) it returns the results. `expand` does
    the same for an operation that is lowered as a whole: the form it is differentiated in, and runs in when operands it
    wants constant are not; None where the node has a gradient rule instead. `evidence` and `note` say how its engine
    operations are known and what users should know beside the rules. `gradient` builds the operation's part of a
    backward pass (see Gradient); None: through its decomposition or expansion if it has one, else it cannot be trained
    through. Where the gradient ends (integers, booleans, steps) the rule is ops.gradients.stopped."""

    name: str
    parameters: tuple[Parameter, ...]
    infer: Callable[[Mapping[str, Any]], tuple[TensorType, ...]]
    reference: Reference
    rules: tuple[Rule, ...] = ()
    lower: Callable[[Node, Any], None] | None = None
    post: Callable[[Node, Any], tuple[Post, Table | None] | None] | None = None
    view: bool | Callable[[Node], bool] = False
    decompose: Callable[[Node, Any], tuple[Value, ...]] | None = None
    evidence: Evidence = Evidence.COMPOSED
    note: str = ""
    gradient: Gradient | None = None
    expand: Callable[[Node, Any], tuple[Value, ...] | None] | None = None

    def views(self, node: Node) -> bool:
        """Whether the node's result is its operand x, element by element, as it is stored."""
        return self.view(node) if callable(self.view) else self.view
