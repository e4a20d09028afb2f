"""nearest_steps: numbers rounded to whole steps of quantisation, held between two of them, and made numbers again.

With `units`, steps per unit of x: scale * (clip(round(units * x), low, high) + zero). With a second tensor y it is the
steps of ratio * x + y, or of x * y, as `function` says (step_pairs), and with `counts` of ratio * (counts[0] * x +
counts[1] * y) + counts[2] * x + counts[3] * y, where fp16 holds both sums (step_factors); with `axes` those of the sum
of x over these, dimensions that `keep_dims` keeps. Without `units`, x is 1536 and a whole number, as a sum is that was
rounded with 1536 among its terms, or so many `parts` times that (step_weights). Not one of MIL's own operations: it is
recognised where it is written out (written_steps).

The planar engine computes in fp32 and rounds what it stores, ties to even. Numbers of fp16 are 1 apart from 1024 to
2048: a product plus 1536 is rounded to whole steps by being stored. One factor in fp16 would move the product by up to
an eighth of a step, two hold nearly all digits of fp32. Beyond 512 steps the distances are others; no bound is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.engine import Activation, Post
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import tables
from openane.ops.fewer import elementwise
from openane.ops.gradients import stopped
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.reduce import reduced_shape
from openane.ops.rewriter import Rewriter
from openane.ops.rounding import WHOLE
from openane.ops.rules import ENGINE
from openane.ops.shaped import written_as
from openane.ops.spec import Op, Parameter
from openane.ops.stages import Stages
from openane.ops.step_factors import ALONE
from openane.ops.written_steps import ENDS, MOST, NAME, PARTS, two_factors, written_steps

PARAMETERS = (Parameter("x"), Parameter("units", const=True, default=None, kind="number"),
              *(Parameter(name, const=True, kind="number") for name in ("low", "high")),
              Parameter("zero", const=True, default=0.0, kind="number"),
              Parameter("scale", const=True, default=1.0, kind="number"), Parameter("y", default=None),
              Parameter("function", const=True, default="add", kind="string", choices=("add", "mul")),
              Parameter("ratio", const=True, default=1.0, kind="number"),
              Parameter("counts", const=True, default=None, kind="int32"),
              Parameter("axes", const=True, default=None, kind="int32"),
              Parameter("keep_dims", const=True, default=True, kind="bool"),
              Parameter("parts", const=True, default=1.0, kind="number"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments(NAME, PARAMETERS, operands)
    x = arguments.tensor("x", FLOATS)
    low, high = arguments.number("low"), arguments.number("high")
    for name, number in (("low", low), ("high", high)):
        if not abs(number) <= MOST or number != int(number):
            raise refusal(NAME, name, f"must be a whole number from {-MOST} to {MOST}", number)
    if low > high:
        raise refusal(NAME, "low", f"must not exceed high = {high:g}", low)
    if arguments.given("units") and two_factors(arguments.number("units")) is None:
        raise refusal(NAME, "units", "must be the product of two normal numbers of fp16", arguments.number("units"))
    if arguments.number("parts") not in PARTS or (arguments.given("units") and arguments.number("parts") != 1):
        raise refusal(NAME, "parts", "must be a power of two up to 16, and 1 where units are given",
                      arguments.number("parts"))
    _check_second(arguments, x)
    axes = arguments.axes("axes", x.type.rank)
    if axes is None:
        return (x.type,)
    if arguments.given("y") or not arguments.given("units"):
        raise refusal(NAME, "axes", "are those of one tensor, counted in units", list(axes))
    return (TensorType(x.dtype, reduced_shape(x.shape, axes, arguments.flag("keep_dims"))),)


def _check_second(arguments: Arguments, x: Value) -> None:
    """A second tensor is broadcast to x and counted in the same steps."""
    if not arguments.given("y"):
        return
    arguments.text("function", ("add", "mul"))
    y = arguments.tensor("y", (x.dtype,), (x.type.rank, x.type.rank))
    if not arguments.given("units"):
        raise refusal(NAME, "units", "must be given where y is")
    if any(extent not in (1, wanted) for extent, wanted in zip(y.shape, x.shape, strict=True)):
        raise refusal(NAME, "y", f"must broadcast to {list(x.shape)}", list(y.shape))
    if not arguments.number("ratio") or half(arguments.number("ratio")) != arguments.number("ratio"):
        raise refusal(NAME, "ratio", "must be a number of fp16 other than 0", arguments.number("ratio"))
    arguments.vector("counts", ALONE)


def _reference(*, x: np.ndarray, units: np.ndarray | None, low: np.ndarray, high: np.ndarray, zero: np.ndarray,
               scale: np.ndarray, y: np.ndarray | None, function: str, ratio: np.ndarray,
               counts: np.ndarray | None, axes: np.ndarray | None, keep_dims: np.ndarray,
               parts: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    if axes is not None:
        wide = wide.sum(tuple(int(axis) for axis in axes), keepdims=bool(keep_dims))
    if y is not None:
        of_x, of_y, more_x, more_y = ALONE if counts is None else counts.astype(np.float64)
        wide = wide * y if function == "mul" else float(ratio) * (of_x * wide + of_y * y) + more_x * wide + more_y * y
    with np.errstate(invalid="ignore"):
        whole = np.rint(wide / float(parts) - WHOLE if units is None else wide * float(units))
    return ((np.clip(whole, low, high) + zero.astype(np.float64)).astype(x.dtype) * x.dtype.type(scale),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Two operations: what is stored beside WHOLE, and a table that holds it within its bounds."""
    arguments = Arguments(NAME, PARAMETERS, node.operands)
    x, target = lowering.read(node["x"]), lowering.result(node.output)
    if arguments.given("axes"):
        x = _summed(node, lowering, x)
    elif arguments.given("units"):
        stages = Stages(lowering, target.shape)
        x = _pair(stages, node, lowering, x) if arguments.given("y") else \
            _rounded(stages, x, arguments.number("units"))
    scale, zero, parts = half(arguments.number("scale")), arguments.number("zero"), arguments.number("parts")
    bounds = sorted(half(scale * (arguments.number(name) + zero)) for name in ("low", "high"))
    lowering.copy(x.expand(target.shape), target,
                  Post(bias=half(parts * (zero - WHOLE)), scale=scale / parts, activation=Activation.TABLE),
                  tables.clip(*bounds))


def _pair(stages: Stages, node: Node, lowering: Lowering, x: Tensor) -> Tensor:
    """WHOLE plus the nearest whole number to what becomes of two tensors."""
    arguments, y = Arguments(NAME, PARAMETERS, node.operands), lowering.read(node["y"])
    units = arguments.number("units")
    if arguments.text("function", ("add", "mul")) == "add":
        counts = arguments.vector("counts", ALONE)
        x, y = _added(stages, x, y, counts[:2]), _added(stages, x, y, counts[2:])
        return stages.planar(x, y, pre_scale=arguments.number("ratio"), scale=half(units), bias=WHOLE)
    factors = two_factors(units)
    assert factors is not None, "what infer lets through"
    return stages.times(x, y, pre_scale=factors[0], scale=factors[1], bias=WHOLE)


def _added(stages: Stages, x: Tensor, y: Tensor, counts: Sequence[int]) -> Tensor:
    """So many times x and y: whole numbers that fp16 holds."""
    of_x, of_y = counts
    if (of_x, of_y) in (ALONE[:2], ALONE[2:]):
        return x if of_x else y
    return stages.planar(x, y, pre_scale=of_x / of_y, scale=of_y)


def _summed(node: Node, lowering: Lowering, x: Tensor) -> Tensor:
    """WHOLE plus the nearest whole number to units times the sum of x over the axes: a reduction's last factor has the
    digits of fp32, and what it adds behind that is WHOLE."""
    arguments = Arguments(NAME, PARAMETERS, node.operands)
    axes = arguments.axes("axes", x.rank)
    assert axes is not None, "asked where there are axes"
    made = lowering.scratch(node.output.shape)
    with written_as(lowering, made, reduced_shape(x.shape, axes, True)) as target:
        lowering.reduce(target, x, axes, final_scale=arguments.number("units"), epsilon=WHOLE)
    return made


def _fewer(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    return elementwise(node, rewriter) if node.get("axes") is None else None


def _rounded(stages: Stages, x: Tensor, units: float) -> Tensor:
    """WHOLE plus the nearest whole number to units * x."""
    factors = two_factors(units)
    assert factors is not None, "what infer lets through"
    return stages.planar(x, pre_scale=factors[0], scale=factors[1], bias=WHOLE)


OPS = (Op(NAME, PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, gradient=stopped, fewer=_fewer,
          rounds=True, recognise=dict.fromkeys(ENDS, written_steps)),)
