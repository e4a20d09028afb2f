"""Images, or any last dimensions, in another size: resize, resize_bilinear, resize_nearest_neighbor, upsample_bilinear,
upsample_nearest_neighbor.

Nearest neighbours are elements picked by constant indices: moved bit by bit. Bilinear resizing is a matrix for each
dimension: with fp16 weights and an fp16 result after each, the error is at most 2^-10 of the largest neighbour per
dimension. `resize` in mode NEAREST_NEIGHBOR with sampling DEFAULT picks like resize_nearest_neighbor, at the centres of
the results, as importers that use either assume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, gathered_back, mapped_back, only
from openane.ops.lowering import Lowering
from openane.ops.movement import place_for, select
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import ENGINE, MOVED
from openane.ops.sampling import MODES, NEIGHBOURS, grid, linear, lower_maps, mapped, nearest
from openane.ops.slice import as_operands
from openane.ops.spec import Movement, Op, Parameter, Upstream

LARGEST = 1 << 15
"""Elements a resized dimension may have: as wide as the engine's fields."""

FACTORS = (Parameter("scale_factor_height", const=True, default=1.0, kind="number"),
           Parameter("scale_factor_width", const=True, default=1.0, kind="number"))
SIZES = (Parameter("target_size_height", const=True, default=1, kind="int32"),
         Parameter("target_size_width", const=True, default=1, kind="int32"))
SAMPLING = Parameter("sampling_mode", const=True, default="DEFAULT", kind="string")
PARAMETERS = {
    "upsample_nearest_neighbor": (Parameter("x"), *FACTORS),
    "upsample_bilinear": (Parameter("x"), *FACTORS, Parameter("align_corners", const=True, default=True, kind="bool"),
                          Parameter("half_pixel_centers", const=True, default=None, kind="bool")),
    "resize_nearest_neighbor": (Parameter("x"), *SIZES),
    "resize_bilinear": (Parameter("x"), *SIZES, SAMPLING),
    "resize": (Parameter("x"), Parameter("shape", const=True, kind="index"),
               Parameter("resized_dims", const=True, kind="index"),
               Parameter("interpolation_mode", const=True, default="LINEAR", kind="string"), SAMPLING),
}

Sizes = Mapping[int, int]
"""Dimension to its extent in the result."""


def _sizes(arguments: Arguments, x: Value) -> Sizes:
    """The dimensions that are resized. GraphError when sizes do not fit x."""
    rank = x.type.rank
    if arguments.op == "resize":
        return _stated(arguments, x)
    found = {}
    for axis, side in ((rank - 2, "height"), (rank - 1, "width")):
        if arguments.op.startswith("upsample"):
            name = f"scale_factor_{side}"
            factor = arguments.number(name)
            if not 0 < factor <= LARGEST:
                raise refusal(arguments.op, name, f"must be above 0 and at most {LARGEST}", factor)
            found[axis] = int(np.floor(np.float32(factor) * x.shape[axis]))
        else:
            name = f"target_size_{side}"
            found[axis] = arguments.integer(name, 1)
        if not 1 <= found[axis] <= LARGEST:
            raise refusal(arguments.op, name, f"must give 1 to {LARGEST} elements", found[axis])
    return found


def _stated(arguments: Arguments, x: Value) -> Sizes:
    rank = x.type.rank
    shape = arguments.integers("shape", (), minimum=0) or ()
    count = arguments.integer("resized_dims", 0, len(shape))
    if len(shape) > rank:
        raise refusal("resize", "shape", f"must hold at most {rank} extents, one for each dimension of x", list(shape))
    if max(shape, default=0) > LARGEST:
        raise refusal("resize", "shape", f"must hold extents of at most {LARGEST}", list(shape))
    axes = range(rank - count, rank)
    return {axis: shape[len(shape) - rank + axis] or x.shape[axis] for axis in axes}


def sampling_mode(arguments: Arguments) -> str:
    """The sampling mode, whatever the operation calls it."""
    if arguments.op != "upsample_bilinear":
        return arguments.text("sampling_mode", MODES)
    corners = arguments.flag("align_corners")
    half = arguments.flag("half_pixel_centers") if arguments.given("half_pixel_centers") else not corners
    if corners and half:
        raise refusal(arguments.op, "half_pixel_centers", "must be false where align_corners is true")
    return "STRICT_ALIGN_CORNERS" if corners else "UNALIGN_CORNERS" if half else "DEFAULT"


def _is_nearest(arguments: Arguments) -> bool:
    if arguments.op == "resize":
        return arguments.text("interpolation_mode", ("LINEAR", "NEAREST_NEIGHBOR")) == "NEAREST_NEIGHBOR"
    return arguments.op.endswith("nearest_neighbor")


def resizing(name: str, operands: Mapping[str, Operand]) -> tuple[dict[int, np.ndarray], bool]:
    """(the elements picked, or the matrix applied, along each dimension that changes; whether elements are picked)."""
    arguments = Arguments(name, PARAMETERS[name], operands)
    x = arguments.tensor("x", ranks=(1 if name == "resize" else 3, 8))
    sizes = _sizes(arguments, x)
    picked = _is_nearest(arguments)
    function: Callable[[int, int], np.ndarray]
    if not picked:
        mode = sampling_mode(arguments)
        return {d: linear(grid(mode, x.shape[d], size), x.shape[d]) for d, size in sizes.items()
                if size != x.shape[d] or mode == "OFFSET_CORNERS"}, False
    if name == "upsample_nearest_neighbor":
        function = _floor
    else:
        mode = sampling_mode(arguments) if name == "resize" else "DEFAULT"
        function = partial(_nearest, "UNALIGN_CORNERS" if mode == "DEFAULT" else mode)
    return {d: function(x.shape[d], size) for d, size in sizes.items()}, True


def _floor(extent: int, results: int) -> np.ndarray:
    return np.arange(results) * extent // results


def _nearest(mode: str, extent: int, results: int) -> np.ndarray:
    if mode == "UNALIGN_CORNERS":  # exactly, where a centre falls between two elements
        step = Fraction(extent, results)
        return np.array([int((i + Fraction(1, 2)) * step) for i in range(results)])
    return nearest(grid(mode, extent, results), extent)


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS[name], operands)
    x = arguments.tensor("x", ranks=(1 if name == "resize" else 3, 8))
    sizes = _sizes(arguments, x)
    if not _is_nearest(arguments) or name == "resize":
        sampling_mode(arguments)
    return (TensorType(x.dtype, tuple(sizes.get(d, extent) for d, extent in enumerate(x.shape))),)


def _reference(*, name: str, x: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    plan, picked = resizing(name, as_operands(x, settings))
    if not picked:
        return (mapped(x, plan),)
    for axis, at in plan.items():
        x = np.take(x, at, axis)
    return (x,)


def _lower(node: Node, lowering: Lowering) -> None:
    plan, picked = resizing(node.op, node.operands)
    if picked:
        select(lowering, node.output, lowering.native(node["x"]), plan)
        return
    tensor = lowering.read(node["x"])
    place = place_for(lowering, node.output, tensor, node.output.shape)
    lowering.bind(node.output, lower_maps(lowering, tensor, plan, place), node.output.shape)


def _averages(node: Node, *, name: str) -> int:
    """Between neighbours each dimension is summed by itself."""
    return 0 if _is_nearest(Arguments(name, PARAMETERS[name], node.operands)) else NEIGHBOURS


LINEAR = "Error up to 2^-10 of the largest neighbour per dimension; inf and NaN spread along resized lines."


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Along each dimension the transpose of the matrix that resized it: each element gets what it has a part in."""
    x, given = node["x"], only(upstream)
    plan, picked = resizing(node.op, node.operands)
    for axis, found in plan.items():
        given = gathered_back(backward, given, axis, found, x.shape[axis]) if picked else \
            mapped_back(backward, given, axis, found)
    return {"x": given}


OPS = tuple(Op(name, parameters, partial(_infer, name=name), partial(_reference, name=name),
               rules=MOVED if name.endswith("nearest_neighbor") else ENGINE, lower=_lower,
               note="" if name.endswith("nearest_neighbor") else LINEAR, gradient=_gradient,
               moves={"upsample_nearest_neighbor": Movement.ORDER, "resize_nearest_neighbor": Movement.PART}.get(name),
               homogeneous=lambda node: ("x",), averages=partial(_averages, name=name))
            for name, parameters in PARAMETERS.items())
