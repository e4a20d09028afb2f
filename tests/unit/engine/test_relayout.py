"""Accesses compared by their loops alone, held to the addresses they visit."""

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from openane.engine import Access
from openane.engine.relayout import contains, dimensions, nested, relaid, touches

EXTENTS = st.tuples(*(st.integers(1, 3) for _ in range(5)))


def places(access):
    """Offsets of the elements in the order the loops visit them."""
    return [access.offset + sum(i * s for i, s in zip(index, access.strides, strict=True))
            for index in product(*(range(extent) for extent in access.shape))]


@st.composite
def tensors(draw, shape=None):
    """A tensor whose dimensions lie in any order with gaps of any size between their steps."""
    shape = shape or draw(EXTENTS)
    strides, step = [0] * 5, 2
    for axis in draw(st.permutations(range(5))):
        strides[axis] = step
        step = step * shape[axis] + draw(st.sampled_from([0, 0, 2, 14]))
    return Access(slot=1, shape=shape, strides=tuple(strides))


@st.composite
def parts(draw, whole):
    """A part of a tensor: a range with a step of every dimension."""
    starts = [draw(st.integers(0, extent - 1)) for extent in whole.shape]
    steps = [draw(st.integers(1, 2)) for _ in range(5)]
    shape = [draw(st.integers(1, (extent - 1 - start) // step + 1))
             for extent, start, step in zip(whole.shape, starts, steps, strict=True)]
    offset = sum(start * stride for start, stride in zip(starts, whole.strides, strict=True))
    return Access(slot=1, offset=offset, shape=tuple(shape),
                  strides=tuple(step * stride for step, stride in zip(steps, whole.strides, strict=True)))


@given(tensors())
def test_an_access_touches_the_bytes_of_its_elements(access):
    assert nested(dimensions(access))
    own = {place + byte for place in places(access) for byte in range(2)}
    low, high = access.span
    assert {place for place in range(low - 4, high + 4) if touches(access, place)} == own


@given(st.data())
def test_parts_move_with_their_tensor(data):
    old = data.draw(tensors())
    new = data.draw(tensors(old.shape))
    part = data.draw(parts(old))
    moved = relaid(part, old, new)
    assert moved is not None
    where = dict(zip(places(old), places(new), strict=True))
    assert places(moved) == [where[place] for place in places(part)]


@given(st.data())
def test_what_covers_an_access_has_all_of_its_elements(data):
    whole = data.draw(tensors())
    one, other = data.draw(parts(whole)), data.draw(parts(whole))
    assert contains(whole, one)
    assume(contains(one, other))
    assert set(places(other)) <= set(places(one))
