"""cast: the same numbers in another element type.

Towards an integer type fractions are cut off (towards zero) and numbers beyond its range become its nearest end, which
MIL leaves open; towards bool every number but zero is true. On the engine both are one table; widening is free.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import DType
from openane.engine.table import KNOTS, Table, TableKind
from openane.graph import Node, Operand, TensorType, numpy_type
from openane.ops.fewer import elementwise
from openane.ops.gradients import Backward, only
from openane.ops.halves import LARGEST
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rules import MOVABLE, MOVED
from openane.ops.spec import Op, Parameter, Upstream
from openane.ops.tables import clip, step

PARAMETERS = (Parameter("x"), Parameter("dtype", const=True, kind="string"))
REALS = ("fp16", "fp32")
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
          "int32": (-2 ** 31, 2 ** 31 - 1), "bool": (0, 1)}


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("cast", PARAMETERS, operands)
    x = arguments.tensor("x", MOVABLE)
    return (TensorType(arguments.text("dtype", MOVABLE), x.shape),)


def _reference(*, x: np.ndarray, dtype: str) -> tuple[np.ndarray, ...]:
    if dtype in REALS:
        rounded = x.astype(numpy_type(dtype))
        return (rounded.astype(np.float32),)
    if dtype == "bool":
        return (x != 0,)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=np.inf))
    return (np.clip(whole, *RANGES[dtype]).astype(numpy_type(dtype)),)


def _same_numbers(node: Node) -> bool:
    """Whether every number x can hold on the engine is one of the result's type."""
    source, target = node["x"].dtype, node.output.dtype
    if target in REALS or source == target:
        return True
    if source in REALS:
        return False
    (low, high), (lowest, highest) = RANGES[source], RANGES[target]
    return lowest <= low and high <= highest and target != "bool"


def _view(node: Node) -> bool:
    """Whether nothing happens at all: two-byte elements stay the same numbers."""
    one_byte = ("bool", "int8", "uint8")
    return _same_numbers(node) and node["x"].dtype not in one_byte and node.output.dtype not in one_byte


def _table(dtype: str, source: str) -> Table:
    """What takes numbers of `source` to those of `dtype`."""
    if dtype == "bool":
        return step(1.0, 0.0, 1.0)
    low, high = (float(min(max(bound, -LARGEST), LARGEST)) for bound in RANGES[dtype])
    if source not in REALS:
        return clip(low, high)
    return Table(low, high, low, high, (0.0,) * KNOTS, kind=TableKind.INTEGER)


def _lower(node: Node, lowering: Lowering) -> None:
    x, target = node["x"], node.output.dtype
    if _view(node) or x.dtype == target:
        lowering.alias(node.output, x)
        return
    source = lowering.native(x)
    if not _same_numbers(node):
        lowering.copy(source, lowering.result(node.output), None, _table(target, x.dtype))
    elif source.dtype is DType.FLOAT16:
        lowering.alias(node.output, x)
    else:
        lowering.copy(source, lowering.result(node.output))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Back to the element type it came from; only real numbers are reached (see training.gradient)."""
    return {"x": backward.single("cast", x=only(upstream), dtype=node["x"].dtype)}


OPS = (Op("cast", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, view=_view, gradient=_gradient,
          casts=True, hands_on=True, fewer=elementwise),)
