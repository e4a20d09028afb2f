"""Espresso layers that move elements or bring constants in."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from openane.errors import FormatError, GraphError
from openane.graph import Value
from openane.importers.espresso.files import AXES
from openane.importers.espresso.layer import EspressoLayer, Handler, Result
from openane.ops.operands import MAXIMUM_ELEMENTS

_NUMBERS = {axis: number for number, axis in enumerate(reversed(AXES))}
"""Numbers of axes in transposes: from w, 0, outwards."""


def _concat(layer: EspressoLayer) -> Value:
    """Along the channels, which axis 1 stands for."""
    layer.known("axis")
    layer.require(axis=1)
    if any(value.type.rank < 3 for value in layer.inputs):
        raise GraphError(f"{layer.entry.label}: operands must have channels")
    return layer.add("concat", values=tuple(layer.inputs), axis=-3)


def _concat_nd(layer: EspressoLayer) -> Value:
    layer.known("nd_axis")
    return layer.add("concat", values=tuple(layer.inputs), axis=layer.entry.integer("nd_axis", None, -8))


def _split_nd(layer: EspressoLayer) -> Result:
    """Into equal parts, or the ones the shape file states."""
    entry = layer.entry
    layer.known("nd_axis")  # a begin_N that is not 0 is refused with every unknown attribute
    axis = entry.integer("nd_axis", None, -8)
    stated = [shape[axis] for shape in layer.shapes if shape is not None and -len(shape) <= axis < len(shape)]
    parts: dict[str, Any] = {"split_sizes": stated} if len(stated) == len(layer.names) else \
        {"num_splits": len(layer.names)}
    return layer.add_all("split", x=layer.x, axis=axis, **parts)


def _transpose(layer: EspressoLayer) -> Value:
    """axis_X is the number of the axis that becomes X."""
    layer.known(*(f"axis_{axis}" for axis in AXES))
    rank = layer.x.type.rank
    numbers = [layer.entry.integer(f"axis_{axis}", number, 0, 4) for axis, number in
               ((axis, _NUMBERS[axis]) for axis in AXES)]
    perm = [4 - number for number in numbers]
    kept = [axis - (5 - rank) for axis in perm[5 - rank:]]
    if sorted(perm) != list(range(5)) or sorted(kept) != list(range(rank)):
        raise layer.entry.refuse("axis_n to axis_w", numbers, f"an exchange of the {rank} axes of {layer.x.type}")
    return layer.add("transpose", x=layer.x, perm=kept)


def _reshape(layer: EspressoLayer) -> Value:
    """To dst_seq, n, k, h, w: the last dst_nd_rank of them (4 unless stated); -1 is what is left."""
    layer.known("mode", "dynamic_shape", "dst_nd_rank", "static_shape", *(f"dst_{axis}" for axis in AXES))
    layer.require(mode=0, dynamic_shape=0)
    rank = layer.entry.integer("dst_nd_rank", 4, 1, 5)
    shape = [layer.entry.integer(f"dst_{axis}", 1, -1) for axis in AXES[5 - rank:]]
    if 0 in shape or shape.count(-1) > 1:
        raise layer.entry.refuse("dst", shape, "extents of 1 or more, one of them -1 at most")
    return layer.add("reshape", x=layer.x, shape=shape)


def _flatten(layer: EspressoLayer) -> Value:
    """All of k, h and w become channels."""
    layer.known("mode")
    layer.require(mode=0)
    x = layer.x
    batch = x.shape[0] if x.type.rank == 4 else 1
    return layer.add("reshape", x=x, shape=(batch, x.type.elements // batch, 1, 1))


def _axes(layer: EspressoLayer) -> list[int]:
    count = layer.entry.integer("size_of_axes", None, 1, 5)
    keys = [f"axes_{index}" for index in range(count)]
    layer.known("size_of_axes", "nd_axis", *keys)
    return [layer.entry.integer(key, None, -8) for key in keys]


def _constant(layer: EspressoLayer) -> Value:
    """A blob of fp32 numbers [n, k, h, w], or of rank nd_rank."""
    entry = layer.entry
    layer.known("constant_blob", "nd_rank", *AXES)
    rank = entry.integer("nd_rank", 4, 0, 5)
    extents = {axis: entry.integer(axis, 1, 1) for axis in AXES}
    shape = tuple(extents[axis] for axis in AXES[5 - rank:])
    if prod(extents.values()) != prod(shape) or prod(shape) > MAXIMUM_ELEMENTS:
        raise FormatError(f"{entry.label}: extents", expected=f"at most {MAXIMUM_ELEMENTS} elements in {rank} axes",
                          found=list(extents.values()))
    data = layer.blobs.read(entry, "constant_blob", prod(shape), "<f4", filled=True)
    return layer.builder.constant(data.reshape(shape), layer.names[0])


def _copy(layer: EspressoLayer) -> Value:
    layer.known()
    return layer.add("identity", x=layer.x)


HANDLERS: Mapping[str, Handler] = {
    "concat": _concat, "concat_nd": _concat_nd, "split_nd": _split_nd, "transpose": _transpose, "reshape": _reshape,
    "flatten": _flatten, "load_constant": _constant, "copy": _copy,
    "expand_dims": lambda layer: layer.add("expand_dims", x=layer.x, axes=_axes(layer)),
    "squeeze": lambda layer: layer.add("squeeze", x=layer.x, axes=_axes(layer)),
}
