"""net.plist units that look at more than one element: convolution, pooling, reductions, products and movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from openane.errors import FormatError, GraphError
from openane.graph import Value
from openane.importers.netplist import neurons
from openane.importers.netplist.unit import Handler, Unit, dimensions
from openane.ops.operands import MAXIMUM_ELEMENTS

PADS = ("PadTop", "PadBot", "PadLeft", "PadRight", "PadFront", "PadBack", "PaddingMode")
KERNEL = ("Type", "KernelWidth", "KernelHeight", "KernelDepth", "Step", *PADS)


def convolution(unit: Unit) -> Value:
    """Conv: weights [OutputChannels, C / NumGroups, (D,) H, W] at KernelOffset of file KernelIndex."""
    params, x = unit.params, unit.x
    params.only(*KERNEL, "KernelType", "KernelMode", "KernelIndex", "KernelOffset", "KernelGroupReuse",
                "KernelMutable", "KernelDilationX", "KernelDilationY")
    params.choice("Type", {"Conv": None}, "Conv")
    params.choice("KernelMode", {"Dense": None}, "Dense")
    params.choice("PaddingMode", {"Zero": None}, "Zero")
    for key in ("KernelGroupReuse", "KernelMutable"):
        if params.flag(key):
            raise params.refuse(key, True, f"{key} false")
    channels, groups = unit.entry.integer("OutputChannels", None, 1), unit.entry.integer("NumGroups", 1, 1)
    if x.shape[1] % groups or channels % groups:
        raise GraphError(f"{unit.entry.label}: NumGroups must divide the {x.shape[1]} channels read and the "
                         f"{channels} written; found {groups}")
    shape = (channels, x.shape[1] // groups, *unit.kernel(params))
    if prod(shape) > MAXIMUM_ELEMENTS:
        raise FormatError(f"{unit.entry.label}: the kernel is too large",
                          expected=f"at most {MAXIMUM_ELEMENTS} elements", found=list(shape))
    weight = unit.weights.read(params, "Kernel", prod(shape), shape)
    bias = None if unit.bias is None else neurons.goc_data(unit, unit.bias, "Bias", channels)
    dilations = [1] * (unit.rank - 4) + [params.integer(f"KernelDilation{axis}", 1, 1) for axis in "YX"]
    return unit.add("conv", x=x, weight=weight, bias=bias, strides=stated(unit.steps(params)),
                    dilations=stated(dilations), groups=groups, **unit.pads(params))


def stated(numbers: Sequence[int]) -> Sequence[int] | None:
    """Strides or dilations, None where all are 1 and so need not be stated."""
    return None if set(numbers) == {1} else numbers


def pooling(unit: Unit) -> Value:
    """Pooling: the largest element or the mean of every window."""
    params, x = unit.params, unit.x
    params.only(*KERNEL, "AverageCountExcludePadding")
    kind = params.choice("Type", {"Max": "max_pool", "Avg": "avg_pool"})
    pads = unit.pads(params)
    mode = params.choice("PaddingMode", {"Zero": "Zero", "Negative": "Negative"},
                         "Negative" if kind == "max_pool" else "Zero")
    if "pad" in pads and (mode == "Negative") != (kind == "max_pool"):
        raise params.refuse("PaddingMode", mode, "Negative padding of a maximum, Zero padding of a mean")
    extra: dict[str, Any] = {}
    if kind == "avg_pool":
        extra["exclude_padding_from_average"] = params.flag("AverageCountExcludePadding")
    return unit.add(kind, x=x, kernel_sizes=unit.kernel(params), strides=stated(unit.steps(params)), **pads, **extra)


def concat(unit: Unit) -> Value:
    """Concat: the operands in the order of Bottom, along Params.Dimension (Channel)."""
    unit.params.only("Dimension")
    (axis,) = dimensions(unit.params, "Dimension", unit.axes(), "Channel")[:1]
    return unit.add("concat", values=tuple(unit.inputs), axis=axis)


def reshape(unit: Unit) -> Value:
    """Reshape: the elements in the order N, C, D, H, W."""
    keys = ("Batch", "Channel", "Depth", "Height", "Width")
    unit.params.only(*(f"Reshaped{key}" for key in keys))
    return unit.add("reshape", x=unit.x, shape=unit.extents(unit.params, "Reshaped"))


def input_view(unit: Unit) -> Value:
    """InputView: Size elements from Offset on, along Params.Dimension."""
    params, x = unit.params, unit.x
    params.only("Dimension", "Offset", "Size", "Step")
    if "Step" in params and params.integers("Step") != (1,):
        raise params.refuse("Step", params.values["Step"], "Step 1")
    (axis,) = dimensions(params, "Dimension", unit.axes())[:1]
    offset, size = params.integer("Offset", 0), params.integer("Size", None, 1)
    if offset + size > x.shape[axis]:
        raise GraphError(f"{params.label}: Offset {offset} and Size {size} must lie within {x.shape[axis]} elements")
    begin = [0] * unit.rank
    extents = list(x.shape)
    begin[axis], extents[axis] = offset, size
    return unit.add("slice_by_size", x=x, begin=begin, size=extents)


def broadcast(unit: Unit) -> Value:
    """Broadcast: extents of 1 become Size, along every Dimension of BroadcastInfo."""
    unit.params.only("BroadcastInfo")
    reps = [1] * unit.rank
    for info in unit.params.sections("BroadcastInfo"):
        info.only("Dimension", "Size")
        size = info.integer("Size", None, 1)
        if info.text("Dimension") == "Depth" and unit.rank == 4 and size == 1:
            continue
        (axis,) = dimensions(info, "Dimension", unit.axes())[:1]
        extent = unit.x.shape[axis]
        if extent not in (1, size):
            raise GraphError(f"{info.label}: Size must be {extent}, the extent there, or the extent must be 1; "
                             f"found {size}")
        reps[axis] = size // extent
    return unit.add("tile", x=unit.x, reps=reps)


def softmax(unit: Unit) -> Value:
    """Softmax along one Params.Dimension."""
    unit.params.only("Dimension")
    axes = dimensions(unit.params, "Dimension", unit.axes())
    if len(axes) != 1:
        raise unit.params.refuse("Dimension", unit.params.values["Dimension"], "one dimension")
    return unit.add("softmax", x=unit.x, axis=axes[0])


def reduction(unit: Unit) -> Value:
    """Reduction over Params.Dimension; the extents become 1."""
    unit.params.only("Dimension", "Type")
    kinds = {"Sum": "reduce_sum", "Avg": "reduce_mean", "Max": "reduce_max", "Min": "reduce_min"}
    axes = dimensions(unit.params, "Dimension", unit.axes())
    return unit.add(unit.params.choice("Type", kinds), x=unit.x, axes=axes, keep_dims=True)


def transpose(unit: Unit) -> Value:
    """Transpose: every pair moves a source dimension to a destination; the others stay."""
    unit.params.only("TransposeDimensions")
    axes = unit.axes()
    perm = list(range(unit.rank))
    for pair in unit.params.sections("TransposeDimensions"):
        pair.only("TransposeSourceDimension", "TransposeDestinationDimension")
        (source,) = dimensions(pair, "TransposeSourceDimension", axes)[:1]
        (target,) = dimensions(pair, "TransposeDestinationDimension", axes)[:1]
        perm[target] = source
    if sorted(perm) != list(range(unit.rank)):
        raise unit.params.refuse("TransposeDimensions", unit.params.values["TransposeDimensions"],
                                 "pairs that together exchange dimensions")
    return unit.add("transpose", x=unit.x, perm=perm)


def matrix_multiplication(unit: Unit) -> Value:
    """MatrixMultiplication: matrices of channels by width, one product per batch and height."""
    if unit.rank == 5:
        raise unit.entry.refuse("Type", "MatrixMultiplication", "operands of depth 1")
    unit.params.only()
    x, y = (unit.add("transpose", f"{side}_rows", x=operand, perm=(0, 2, 1, 3))
            for side, operand in zip("xy", unit.operands(2), strict=True))
    return unit.add("transpose", x=unit.add("matmul", "product", x=x, y=y), perm=(0, 2, 1, 3))


def dynamic_goc(unit: Unit) -> Value:
    """DynamicGOC: (x * scale) + bias with operands per channel; Bottom names x and bias when BiasOnly, else x, scale
    and bias."""
    unit.params.only("BiasOnly")
    if not unit.params.flag("BiasOnly"):
        raise unit.params.refuse("BiasOnly", False, "BiasOnly true, or Mult and Add units: in which order scale and "
                                 "bias apply is not known")
    x, bias = unit.operands(2)
    return unit.add("add", x=x, y=bias)


HANDLERS: Mapping[str, Handler] = {
    **neurons.HANDLERS, "Conv": convolution, "Pooling": pooling, "Concat": concat, "Reshape": reshape,
    "InputView": input_view, "Broadcast": broadcast, "Softmax": softmax, "Reduction": reduction,
    "Transpose": transpose, "MatrixMultiplication": matrix_multiplication, "DynamicGOC": dynamic_goc,
}
"""What each unit becomes, by its Type."""

