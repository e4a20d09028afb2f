"""Who names which virtual buffer, and from when to when."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.h13 import coefficients_at, dense

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT
from openane.compiler.buffers.uses import RESULT, BufferLife, Use, lives, named_slots, operands, read_slots, usage
from openane.engine import CoefficientStream, Convolution, Elementwise, PassThrough, Space

SHAPE = (1, 8, 1, 4, 32)
A, B, C, D = range(FIRST_VIRTUAL_SLOT, FIRST_VIRTUAL_SLOT + 4)
REAL = 5


def pointwise(first, result, second=None):
    return Elementwise(first=dense(first, SHAPE), result=dense(result, SHAPE),
                       second=None if second is None else dense(second, SHAPE))


def weighted(source, result, weights):
    return Convolution(source=dense(source, SHAPE), result=dense(result, SHAPE),
                       coefficients=coefficients_at(weights, [CoefficientStream(0, 0, 64)], runtime=True))


def test_operands_are_the_accesses_sources_first():
    assert [role for role, _ in operands(PassThrough(source=dense(A, SHAPE), result=dense(B, SHAPE)))] \
        == ["source", RESULT]
    assert [(role, access.slot) for role, access in operands(pointwise(A, C, B))] \
        == [("first", A), ("second", B), (RESULT, C)]


def test_everything_that_names_a_buffer_is_counted_and_real_slots_are_not():
    kept = replace(dense(A, SHAPE), copy=dense(D, SHAPE, space=Space.L2))
    operation = replace(weighted(A, REAL, B), source=kept)
    assert sorted(named_slots(operation)) == [A, B, D]
    assert sorted(read_slots(operation)) == [A, B]
    assert read_slots(pointwise(A, B)) == [A]
    assert named_slots(pointwise(REAL, REAL)) == []


def test_lives_begin_and_end_with_who_names_a_buffer_in_any_way():
    operations = [pointwise(REAL, A), pointwise(A, B), pointwise(REAL, C), weighted(A, D, B), pointwise(D, REAL)]
    assert lives(operations) == {A: BufferLife(0, 3, 3), B: BufferLife(1, 3, 2), C: BufferLife(2, 2, 1),
                                 D: BufferLife(3, 4, 2)}
    assert lives([]) == {}


def test_uses_are_in_order_and_streamed_ones_apart():
    operations = [pointwise(REAL, A), weighted(A, C, A), pointwise(A, B, A)]
    found = usage(operations)
    assert [(use.operation, use.role) for use in found[A].uses] == [(0, RESULT), (1, "source"), (2, "first"),
                                                                     (2, "second")]
    assert found[A].uses[0] == Use(0, RESULT, operations[0].result)
    assert found[A].streamed == [1]
    assert found[A].life == (0, 2)
    assert found[A].traffic == 4 * 8 * 4 * 32 * 2
    assert found.keys() == {A, B, C}
    assert usage([weighted(REAL, REAL, D)])[D].life == (0, 0)


def test_a_copy_is_a_use_of_the_buffer_it_goes_to():
    kept = replace(dense(REAL, SHAPE), copy=dense(A, SHAPE, space=Space.L2))
    found = usage([replace(pointwise(REAL, REAL), first=kept)])
    assert found.keys() == {A}
    assert found[A].uses == [Use(0, "first", kept.copy)]


@given(st.lists(st.tuples(*[st.sampled_from([REAL, A, B, C, D])] * 3), max_size=12))
def test_a_life_is_what_its_uses_say(names):
    operations = [pointwise(first, result, second) for first, second, result in names]
    found = usage(operations)
    assert lives(operations) == {slot: BufferLife(*use.life, len(use.uses)) for slot, use in found.items()}
    for slot, use in found.items():
        assert [u.operation for u in use.uses] == [number for number, each in enumerate(names) for name in each
                                                   if name == slot]
