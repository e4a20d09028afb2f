"""Arrays that know of which constant they hold the elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.compiler.lower.constant_arrays import ConstantArray, elements
from openane.compiler.weights.layout_records import WeightView
from openane.graph import TensorType, Value

SHAPE = (4, 6, 5, 3)


def constant(shape=SHAPE, dtype=np.float32) -> Value:
    """A constant whose elements are their own numbers."""
    data = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    return Value("w", TensorType("fp32", shape), data)


@st.composite
def steps(draw):
    """What recipes do to an array: each names a function of it."""
    kind = draw(st.sampled_from(["transpose", "slice", "axis", "merge", "split", "copy C", "copy F", "copy K"]))
    return kind, draw(st.integers(0, 10 ** 6))


def stepped(array, step):
    kind, seed = step
    axis = seed % max(1, array.ndim)
    if kind == "transpose":
        return array.transpose(np.random.default_rng(seed).permutation(array.ndim))
    if kind == "slice":
        first = seed // 7 % max(1, array.shape[axis] // 2)
        return array[(*[slice(None)] * axis, slice(first, None, 1 + seed // 11 % 2))]
    if kind == "axis":
        return np.expand_dims(array, axis)
    if kind == "merge" and array.ndim > 1:
        axis = min(axis, array.ndim - 2)
        return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2:])
    if kind == "split" and array.shape[axis] % 2 == 0:
        return array.reshape(*array.shape[:axis], 2, -1, *array.shape[axis + 1:])
    return array.copy(kind[-1]) if kind.startswith("copy") else array


@given(st.lists(steps(), max_size=7))
def test_an_origin_never_names_other_elements(ways):
    value = constant()
    array = ConstantArray.of(value)
    for way in ways:
        array = stepped(array, way)
    found = elements(array)
    if found is not None:
        assert found[0] is value
        assert np.array_equal(found[1].of(value.array().reshape(-1)), array)


@given(st.permutations(range(4)), st.sampled_from("CFK"), st.integers(0, 3), st.integers(0, 2))
def test_copies_of_what_recipes_cut_out_are_known(order, layout, axis, first):
    value = constant()
    array = ConstantArray.of(value).transpose(order).copy(layout)[(*[slice(None)] * axis, slice(first, None))].copy()
    found = elements(array.reshape(1, *array.shape))
    assert found is not None
    assert np.array_equal(found[1].of(value.array().reshape(-1))[0], array)


@pytest.mark.parametrize("change", [
    lambda array: array + 1, lambda array: array * 1, lambda array: np.pad(array, [(0, 1)] * 4), np.zeros_like,
    lambda array: array.astype(np.float16), lambda array: array[[1, 0]], lambda array: array[::-1],
    np.ascontiguousarray, lambda array: np.roll(array, 1),
], ids=["add", "multiply", "pad", "zeros", "other type", "picked", "backwards", "contiguous", "rolled"])
def test_what_is_computed_has_no_origin(change):
    assert elements(change(ConstantArray.of(constant()).transpose(1, 0, 2, 3))) is None


def test_what_is_written_over_has_no_origin():
    array = ConstantArray.of(constant()).copy()
    view = array[1:]
    assert elements(array) is not None
    array += 1
    assert elements(array) is None
    assert elements(view) is None
    again = ConstantArray.of(constant()).copy()
    again[0, 0, 0, 0] = 7
    assert elements(again) is None
    assert elements(again[1:]) is not None


def test_a_view_that_lost_its_type_is_known_by_what_it_was_made_of():
    value = constant()
    found = elements(np.asarray(ConstantArray.of(value).transpose(3, 2, 1, 0)))
    assert found == (value, WeightView(0, SHAPE[::-1], (1, 3, 15, 90)))


def test_equal_numbers_are_not_the_same_constant():
    first, second = constant(), constant()
    assert elements(ConstantArray.of(first).copy())[0] is first
    assert elements(ConstantArray.of(second)[1:])[0] is second
    assert elements(first.array()) is None


def test_memory_with_gaps_has_no_origin():
    data = constant().array()[:, ::2]
    assert elements(ConstantArray.of(Value("w", TensorType("fp32", data.shape), data))) is None


def views(shape):
    """A view of elements that lie one behind the other in a memory of that shape."""
    axes = [st.integers(0, extent - 1).flatmap(lambda first, extent=extent: st.tuples(
        st.just(first), st.integers(1, extent - first))) for extent in shape]
    return st.tuples(*axes).map(lambda cuts: (cuts, tuple(np.prod(shape[axis + 1:], dtype=int)
                                                          for axis in range(len(shape)))))


@given(st.permutations(range(3)), views((3, 4, 5)), st.integers(0, 9))
def test_a_view_through_another(order, cut, offset):
    numbers = np.arange(offset + 60)
    lying = numbers[offset:].reshape(3, 4, 5)
    shape = tuple((3, 4, 5)[axis] for axis in order)
    outer = WeightView(offset, shape, tuple((20, 5, 1)[axis] for axis in order))
    memory = lying.transpose(order).copy()
    cuts = [(min(first, extent - 1), max(1, min(count, extent - first))) for (first, count), extent in
            zip(cut[0], shape, strict=True)]
    part = memory[tuple(slice(first, first + count) for first, count in cuts)]
    strides = (shape[1] * shape[2], shape[2], 1)
    inner = WeightView(sum(first * step for (first, _), step in zip(cuts, strides, strict=True)), part.shape, strides)
    found = outer.through(inner)
    assert found is not None
    assert np.array_equal(found.of(numbers), part)


def test_what_does_not_follow_at_even_distances_is_no_view():
    outer = WeightView(0, (3, 4), (1, 3))  # a transposed copy
    assert outer.through(WeightView(0, (12,), (1,))) is None
    assert outer.through(WeightView(2, (3,), (1,))) is None
    assert outer.through(WeightView(4, (2, 4), (4, 1))) == WeightView(1, (2, 4), (1, 3))
    assert WeightView(0, (3, 4), (4, 1)).through(WeightView(0, (12,), (1,))) == WeightView(0, (12,), (1,))
