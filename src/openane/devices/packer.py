"""Tensors to surfaces and back: the only code that touches tensor bytes.

A surface is described by a `Layout`: extents and byte strides N, C, D, H, W, element type, and an interleave I that
stores channels in blocks of I neighbours. Element (n, c, d, h, w) lies at
n*N + (c // I)*C + d*D + h*H + w*W + (c % I)*size. Bytes between elements are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openane.engine import Access, DType
from openane.errors import DeviceError
from openane.program import Layout
from openane.simulator.memory import OperandArray, view

NUMPY: dict[DType, np.dtype[Any]] = {
    DType.FLOAT16: np.dtype(np.float16), DType.INT8: np.dtype(np.int8), DType.UINT8: np.dtype(np.uint8),
}


def pack(values: np.ndarray, layout: Layout, store: np.ndarray, name: str = "tensor") -> str | None:
    """Writes `values` into the surface `store` (uint8). Any shape with as many elements as the layout's is taken.

    float16 and the layout's integers are copied, bool as 0 and 1; float32 and float64 are rounded to fp16, half to
    even, integers must be fp16 numbers, and what was done is returned as a sentence. DeviceError names what is expected
    otherwise.
    """
    array, note = _as_elements(as_array(values, name), layout, name)
    if array.size != np.prod(layout.shape):
        raise DeviceError(f"{name} has shape {list(np.shape(values))}, which cannot be reshaped to "
                          f"{list(layout.shape)} (N, C, D, H, W)")
    operand = surface(layout, store, name)
    operand.array[...] = array.reshape(layout.shape).view(operand.array.dtype)
    operand.store()
    return note


def unpack(layout: Layout, store: np.ndarray, shape: Sequence[int] | None = None, name: str = "tensor") -> np.ndarray:
    """A copy of the tensor in the surface `store`: float16, int8 or uint8 of `shape` (default: the layout's)."""
    wanted = tuple(layout.shape if shape is None else shape)
    if min(wanted, default=1) < 0 or np.prod(wanted, dtype=object) != np.prod(layout.shape):
        raise DeviceError(f"{name} holds {list(layout.shape)} (N, C, D, H, W), which cannot be reshaped to "
                          f"{list(wanted)}")
    operand = surface(layout, store, name)
    operand.load()
    values: np.ndarray = np.array(operand.array, order="C").view(NUMPY[layout.dtype])
    return values.reshape(wanted)


def update(layout: Layout, store: np.ndarray, values: np.ndarray, index: tuple[int | slice, ...],
           shape: Sequence[int] | None = None, name: str = "tensor") -> None:
    """Writes `values` into part of the tensor in the surface `store`; `index` selects it in `shape` (default: the
    layout's), as in numpy. Element types are taken as `pack` takes them. DeviceError when the values do not fit it.

    Only that part is touched where the surface, seen in `shape`, is an array with strides.
    """
    operand = surface(layout, store, name)
    wanted = tuple(layout.shape if shape is None else shape)
    places = operand.array.view(NUMPY[layout.dtype])
    places = places.reshape(wanted) if np.prod(wanted, dtype=object) == places.size else places
    direct = places.shape == wanted and np.may_share_memory(places, store)
    whole = places if direct else unpack(layout, store, shape, name)
    given = as_array(values, name)
    if given.dtype != NUMPY[layout.dtype]:
        given = _as_elements(given, layout, name)[0].reshape(given.shape)
    try:
        whole[index] = given
    except (IndexError, ValueError, TypeError) as error:
        raise DeviceError(f"{name}{list(index)} does not take values of shape {list(np.shape(values))}: "
                          f"{error}") from None
    if not direct:
        operand.array[...] = whole.reshape(layout.shape).view(operand.array.dtype)
        operand.store()


def as_array(values: object, name: str) -> np.ndarray:
    """The values of `name` as an array. DeviceError for what is none."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise DeviceError(f"{name} is no array: {error}") from None


def surface(layout: Layout, store: np.ndarray, name: str = "tensor") -> OperandArray:
    """The elements of a surface as they are in memory. DeviceError when they do not all lie inside `store`."""
    access = Access(shape=layout.shape, strides=layout.strides, dtype=layout.dtype, interleave=layout.interleave)
    low, high = access.span
    if low < 0 or high > store.size:
        raise DeviceError(f"the surface of {name} takes bytes {low} to {high} of a buffer of {store.size} bytes")
    return view(access, store)


def logical_shape(layout: Layout) -> tuple[int, ...]:
    """The shape a tensor is given back in when nothing else is known: N, C, H, W, with D only where it is not 1."""
    n, c, d, h, w = layout.shape
    return (n, c, h, w) if d == 1 else layout.shape


def _as_elements(array: np.ndarray, layout: Layout, name: str) -> tuple[np.ndarray, str | None]:
    wanted = NUMPY[layout.dtype]
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype == wanted:
        return np.ascontiguousarray(array), None
    if layout.dtype is DType.FLOAT16 and array.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            rounded = array.astype(np.float16)
        lost = int(np.count_nonzero(np.isinf(rounded) & np.isfinite(array)))
        beyond = f", {lost} values became infinite" if lost else ""
        return np.ascontiguousarray(rounded), f"{name}: {array.dtype} rounded to fp16{beyond}"
    if array.dtype == np.bool_ and layout.dtype is DType.UINT8:
        return np.ascontiguousarray(array).view(np.uint8), None
    if layout.dtype is DType.UINT8 and array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all():
        return array.astype(np.uint8), f"{name}: {array.dtype} of 0 and 1 taken as truth values"
    if layout.dtype is DType.FLOAT16 and array.dtype.kind in "iub":
        return _exact_halves(array, name), f"{name}: {array.dtype} stored as fp16"
    accepted = {DType.FLOAT16: "float16, float32, float64 or integers",
                DType.UINT8: "bool, uint8 or integers of 0 and 1"}.get(layout.dtype, str(wanted))
    raise DeviceError(f"{name} has dtype {array.dtype}; expected is {accepted}")


def _exact_halves(array: np.ndarray, name: str) -> np.ndarray:
    """Integers as fp16. DeviceError when one is no fp16 number: those are the whole numbers up to 2048 and beyond that
    ever sparser ones."""
    with np.errstate(over="ignore"):
        halves = np.ascontiguousarray(array).astype(np.float16)
    lost = halves.astype(np.float64) != array
    if lost.any():
        raise DeviceError(f"{name} holds {array[lost].reshape(-1)[0]}, which fp16 cannot hold exactly (every whole "
                          "number up to 2048 it can): scale or split it outside the model")
    return halves
