"""lut_activation: a function given by a table, as `openane.lut` fits it. Not one of MIL's own operations.

The result is table(scale * (x + bias)): between the clips 33 knots are joined by straight lines, 2^-exponent apart and
beginning at 0 (FROM_START), centred on it (CENTRED) or ending there (TO_END); at and beyond a clip it is a constant.
With `odd` the table is one of sizes, and the result has the sign of what it is asked for.
It is a post stage of the neural engine, and so joins a convolution or product before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import Activation, Post
from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.graph import Node, Operand, TensorType
from openane.ops.halves import half
from openane.ops.lowering import Lowering
from openane.ops.lut import ORIGINS, evaluate
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter, Stage
from openane.ops.tables import rounded

EXPONENTS = (-15, 24)
PARAMETERS = (
    Parameter("x"), Parameter("knots", const=True), Parameter("clips", const=True), Parameter("values", const=True),
    Parameter("exponent", const=True, kind="int32"), Parameter("kind", const=True, default="CENTRED", kind="string"),
    Parameter("scale", const=True, default=1.0), Parameter("bias", const=True, default=0.0),
    Parameter("odd", const=True, default=None, kind="bool"),
)
LENGTHS = {"knots": KNOTS, "clips": 2, "values": 2}


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("lut_activation", PARAMETERS, operands)
    x = arguments.tensor("x")
    for name, length in LENGTHS.items():
        value = arguments.like(name, x, (length,))
        if value is not None and np.isnan(value.array()).any():
            raise refusal("lut_activation", name, "must hold numbers", "NaN")
    arguments.integer("exponent", *EXPONENTS)
    arguments.text("kind", [kind.name for kind in ORIGINS])
    for name in ("scale", "bias"):
        if not np.isfinite(half(arguments.number(name))):
            raise refusal("lut_activation", name, "must be a finite fp16 number", arguments.number(name))
    return (x.type,)


def _table(knots: np.ndarray, clips: np.ndarray, values: np.ndarray, exponent: int, kind: str,
           odd: np.ndarray | bool | None) -> Table:
    with np.errstate(over="ignore"):
        low, high = (float(clip) for clip in clips.astype(np.float16))
        below, above = (float(value) for value in values.astype(np.float16))
    return Table(low, high, below, above, rounded(knots), exponent=exponent, kind=TableKind[kind],
                 symmetry=Symmetry.ODD if odd else Symmetry.NONE)


def _reference(*, x: np.ndarray, knots: np.ndarray, clips: np.ndarray, values: np.ndarray, exponent: np.ndarray,
               kind: str, scale: np.ndarray, bias: np.ndarray, odd: np.ndarray | None) -> tuple[np.ndarray, ...]:
    table = _table(knots, clips, values, int(exponent), kind, odd)
    return (evaluate(table, half(float(scale)), half(float(bias)), x).astype(x.dtype),)


def _stage(node: Node, lowering: Lowering) -> Stage:
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    odd = arguments.given("odd") and arguments.flag("odd")
    table = _table(node["knots"].array(), node["clips"].array(), node["values"].array(), arguments.integer("exponent"),
                   arguments.text("kind", [kind.name for kind in ORIGINS]), odd)
    return Post(scale=half(arguments.number("scale")), bias=half(arguments.number("bias")),
                activation=Activation.TABLE), table


def _lower(node: Node, lowering: Lowering) -> None:
    lowering.copy(lowering.read(node["x"]), lowering.result(node.output), *_stage(node, lowering))


OPS = (Op("lut_activation", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, post=_stage),)
