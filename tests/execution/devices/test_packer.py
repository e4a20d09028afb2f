"""The packer against the address formula, element by element."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import layout_of

from openane.devices.packer import NUMPY, logical_shape, pack, unpack, update
from openane.engine import DType
from openane.errors import DeviceError
from openane.program import Layout


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Surfaces whose elements do not overlap: any padding at every level, any nesting order of N, C, D, H."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 4, st.integers(1, 9)))
    dtype, lanes = draw(st.sampled_from(list(DType))), draw(st.sampled_from([1, 2, 3, 4]))
    n, c, d, h, w = shape
    counts = [n, -(-c // lanes), d, h]
    strides = [0, 0, 0, 0, lanes * dtype.size]
    reach = w * lanes * dtype.size
    for axis in draw(st.permutations(range(4))):
        strides[axis] = reach + draw(st.integers(0, 5))
        reach = strides[axis] * counts[axis]
    return Layout(shape, tuple(strides), dtype, lanes)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(layouts(), st.integers(0, 999))
def test_every_element_lies_where_the_layout_says(layout: Layout, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = NUMPY[layout.dtype]
    values = (rng.integers(-100, 100, layout.shape)).astype(dtype)
    sn, sc, sd, sh, sw = layout.strides
    lanes = layout.interleave
    size = max((layout.shape[0] - 1) * sn + (-(-layout.shape[1] // lanes) - 1) * sc + (layout.shape[2] - 1) * sd
               + (layout.shape[3] - 1) * sh + layout.shape[4] * sw, layout.size)
    store = rng.integers(0, 256, size, np.uint8)
    expected = store.copy()
    for n, c, d, h, w in product(*map(range, layout.shape)):
        at = n * sn + c // lanes * sc + d * sd + h * sh + w * sw + c % lanes * dtype.itemsize
        expected[at:at + dtype.itemsize] = np.frombuffer(values[n, c, d, h, w].tobytes(), np.uint8)
    assert pack(values.reshape(-1), layout, store) is None
    np.testing.assert_array_equal(store, expected)
    np.testing.assert_array_equal(unpack(layout, store), values)


def test_shapes_and_types() -> None:
    layout = layout_of((1, 3, 1, 2, 5))
    store = np.zeros(layout.size, np.uint8)
    x = np.arange(30, dtype=np.float32).reshape(3, 10) * 1000 * np.float32(2.5)
    assert pack(x, layout, store, "x") == "x: float32 rounded to fp16, 3 values became infinite"
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(unpack(layout, store, (5, 6)), x.astype(np.float16).reshape(5, 6))
    assert logical_shape(layout) == (1, 3, 2, 5)
    assert logical_shape(layout_of((1, 3, 2, 2, 5))) == (1, 3, 2, 2, 5)
    for wrong, text in ((np.zeros(29, np.float16), r"shape \[29\], which cannot be reshaped to \[1, 3, 1, 2, 5\]"),
                        (np.zeros(30, np.complex64), "complex64; expected is float16, float32, float64 or integers"),
                        (np.full(30, 2049), "x holds 2049, which fp16 cannot hold exactly")):
        with pytest.raises(DeviceError, match=text):
            pack(wrong, layout, store, "x")
    assert pack(np.full(30, -2048), layout, store, "x") == "x: int64 stored as fp16"
    assert (unpack(layout, store) == -2048).all()
    with pytest.raises(DeviceError, match="expected is int8"):
        pack(np.zeros(30, np.float16), layout_of((1, 3, 1, 2, 5), DType.INT8), store, "x")
    for shape in ((7, 5), (-1, 30), (1 << 62, 1 << 62)):
        with pytest.raises(DeviceError, match="cannot be reshaped"):
            unpack(layout, store, shape)
    with pytest.raises(DeviceError, match="of a buffer of 100 bytes"):
        pack(x, layout, store[:100], "x")


def test_truth_values_may_be_integers() -> None:
    layout = layout_of((1, 1, 1, 2, 3), DType.UINT8)
    store = np.zeros(layout.size, np.uint8)
    mask = np.array([1, 0, 0, 1, 1, 0])
    assert pack(mask, layout, store, "mask") == "mask: int64 of 0 and 1 taken as truth values"
    np.testing.assert_array_equal(unpack(layout, store, (6,)), mask)
    with pytest.raises(DeviceError, match="mask has dtype int64; expected is bool, uint8 or integers of 0 and 1"):
        pack(2 * mask, layout, store, "mask")


@pytest.mark.parametrize("interleave", [1, 4])
def test_parts_are_written_in_place(interleave: int) -> None:
    """A part changes as in numpy, in the tensor's own shape; no byte elsewhere does, padding of rows included."""
    plain = layout_of((3, 8, 1, 5, 7))
    n, c, d, h, w = plain.strides
    layout = plain if interleave == 1 else Layout(plain.shape, (n * 4, c * 4, d * 4, h * 4, w * 4), plain.dtype, 4)
    rng = np.random.default_rng(0)
    store = rng.integers(0, 100, layout.size, np.uint8)
    shape = (3, 8, 5, 7)
    before, wanted = store.copy(), unpack(layout, store, shape)
    part = rng.standard_normal((3, 8, 5, 2)).astype(np.float16)
    wanted[..., 3:5] = part
    update(layout, store, part, (slice(None), slice(None), slice(None), slice(3, 5)), shape)
    np.testing.assert_array_equal(unpack(layout, store, shape), wanted)
    assert 0 < np.count_nonzero(store != before) <= part.nbytes
    kept = store.copy()
    with pytest.raises(DeviceError, match="does not take values of shape"):
        update(layout, store, part, (0,), shape)
    with pytest.raises(DeviceError, match="cannot be reshaped"):
        update(layout, store, part, (), (3, 8, 5, 8))
    np.testing.assert_array_equal(store, kept)
