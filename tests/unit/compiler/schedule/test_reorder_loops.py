"""An operation that writes at once what a copy of its result would have written."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import LIMITS, coefficients_at, dense

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT
from openane.compiler.schedule.reorder_loops import packing_copy, written_as
from openane.engine import (
    Access,
    Activation,
    ChannelMaximum,
    CoefficientStream,
    Convolution,
    DType,
    Elementwise,
    GainOffset,
    PassThrough,
    Post,
    Reduction,
    Space,
)

SHAPE = (2, 8, 1, 4, 64)
X, MADE, PACKED = range(FIRST_VIRTUAL_SLOT, FIRST_VIRTUAL_SLOT + 3)
MADE_TENSOR = dense(MADE, SHAPE)


def blocked(shape=SHAPE, **more) -> Access:
    """A tensor with its channels in blocks of 8."""
    n, c, d, h, w = shape
    cell = 16
    plane = d * h * w * cell
    return Access(slot=PACKED, shape=shape, interleave=8,
                  strides=(-(-c // 8) * plane, plane, h * w * cell, w * cell, cell), **more)


def places(access: Access) -> np.ndarray:
    """Where each element an access walks lies, in the order of its loops; blocks of channels included."""
    extents = np.indices(access.shape)
    whole, rest = np.divmod(extents[access.packed], access.interleave)
    extents[access.packed] = whole
    return access.offset + np.tensordot(access.strides, extents, 1) + rest * access.dtype.size


@pytest.mark.parametrize("copy", [Elementwise(first=MADE_TENSOR, result=blocked()),
                                  PassThrough(source=MADE_TENSOR, result=blocked())])
def test_a_copy_into_blocks_is_known(copy):
    assert packing_copy(copy) is MADE_TENSOR


@pytest.mark.parametrize("other", [
    Elementwise(first=MADE_TENSOR, result=dense(PACKED, SHAPE)),
    Elementwise(first=MADE_TENSOR, result=blocked(), relu=True),
    Elementwise(first=MADE_TENSOR, result=blocked(), scale=2.0),
    Elementwise(first=MADE_TENSOR, second=MADE_TENSOR, result=blocked()),
    Elementwise(first=replace(MADE_TENSOR, copy=dense(X, SHAPE, space=Space.L2)), result=blocked()),
    Elementwise(first=replace(blocked(), slot=MADE), result=blocked()),
    PassThrough(source=MADE_TENSOR, result=blocked(), post=Post(activation=Activation.RELU)),
    PassThrough(source=MADE_TENSOR, result=blocked(), input_relu=True),
    PassThrough(source=MADE_TENSOR, result=blocked(), coefficients=coefficients_at(1, [CoefficientStream(0, 0, 128)])),
    ChannelMaximum(source=MADE_TENSOR, result=blocked(), channels=1),
])
def test_what_does_more_than_copy_into_blocks_is_none(other):
    assert packing_copy(other) is None


@given(st.sampled_from(list(permutations(range(5)))))
def test_a_planar_maker_walks_in_the_order_of_the_copy(order):
    n, c, d, h, w = order
    read = replace(MADE_TENSOR, shape=tuple(SHAPE[axis] for axis in (n, c, d, h, w)),
                   strides=tuple(MADE_TENSOR.strides[axis] for axis in (n, c, d, h, w)))
    maker = Elementwise(first=dense(X, SHAPE), result=MADE_TENSOR, scale=2.0)
    result = blocked(read.shape)
    found = written_as(maker, read, result, LIMITS)
    if found is None:
        return
    assert (found.result, found.scale) == (result, 2.0)
    before = dict(zip(places(MADE_TENSOR).ravel(), places(maker.first).ravel(), strict=True))
    assert [before[place] for place in places(read).ravel()] == list(places(found.first).ravel())


def test_the_order_of_the_loops_is_kept_where_it_is_the_same():
    second = replace(dense(X, SHAPE, space=Space.L2), copy=None)
    maker = Elementwise(first=dense(X, SHAPE), second=second, result=MADE_TENSOR)
    assert written_as(maker, MADE_TENSOR, blocked(), LIMITS) == replace(maker, result=blocked())
    vectors = Access(space=Space.L2, slot=X, shape=(2, 8, 1, 2, 1), strides=(0, 16, 0, 128, 0))
    norm = GainOffset(first=dense(X, SHAPE), second=vectors, result=MADE_TENSOR)
    assert written_as(norm, MADE_TENSOR, blocked(), LIMITS) == replace(norm, result=blocked())


def test_the_neural_engine_keeps_its_loops_and_turns_the_result():
    shape = (1, 32, 1, 1, 64)
    made = dense(MADE, shape)
    read = replace(made, shape=(1, 64, 1, 1, 32), strides=(0, made.strides[4], 0, 0, made.strides[1]))
    result = blocked(read.shape)
    maker = Convolution(source=dense(X, shape), result=made,
                        coefficients=coefficients_at(1, [CoefficientStream(0, 0, 64)]))
    found = written_as(maker, read, result, LIMITS)
    assert found is not None
    assert (found.source, found.coefficients, found.result.shape) == (maker.source, maker.coefficients, shape)
    assert found.result.packed == 4
    assert np.array_equal(places(found.result), places(result).transpose(0, 4, 2, 3, 1))


MAKER = Elementwise(first=dense(X, SHAPE), result=MADE_TENSOR)
TURNED = replace(MADE_TENSOR, shape=(2, 64, 1, 4, 8), strides=(4096, 2, 0, 128, 512))


@pytest.mark.parametrize(("maker", "read", "result"), [
    (MAKER, replace(MADE_TENSOR, offset=64), blocked()),
    (MAKER, replace(MADE_TENSOR, slot=X), blocked()),
    (MAKER, replace(MADE_TENSOR, shape=(1, 8, 1, 4, 64)), blocked((1, 8, 1, 4, 64))),
    (MAKER, replace(MADE_TENSOR, strides=(4096, 512, 0, 256, 2)), blocked()),
    (MAKER, replace(MADE_TENSOR, dtype=DType.INT8), blocked(dtype=DType.INT8)),
    (replace(MAKER, result=replace(MADE_TENSOR, copy=dense(X, SHAPE, space=Space.L2))), MADE_TENSOR, blocked()),
    (Reduction(first=dense(X, SHAPE), result=MADE_TENSOR), MADE_TENSOR, blocked()),
    (MAKER, MADE_TENSOR, blocked(packed=4)),
    (GainOffset(first=dense(X, SHAPE), second=dense(X, SHAPE), result=MADE_TENSOR), TURNED, blocked(TURNED.shape)),
    (MAKER, TURNED, blocked(TURNED.shape)),
    (PassThrough(source=dense(X, SHAPE), result=MADE_TENSOR),
     replace(MADE_TENSOR, shape=(2, 4, 1, 8, 64), strides=(4096, 128, 0, 512, 2)), blocked((2, 4, 1, 8, 64))),
], ids=["another place", "another buffer", "fewer elements", "other strides", "another type", "a result with a copy",
        "a reduction", "width in blocks", "turned vectors", "a source that cannot be walked so", "rows as channels"])
def test_what_cannot_be_written_otherwise_stays(maker, read, result):
    assert written_as(maker, read, result, LIMITS) is None
