"""Copies that need not be made: the same work done once, results written turned at once, turns moved to the front."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import LIMITS, coefficients_at, dense, layout_of, turned

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.schedule.copy_elimination import forwarded
from openane.engine import (
    Access,
    Activation,
    CoefficientStream,
    Convolution,
    Elementwise,
    MatrixProduct,
    Operation,
    PassThrough,
    Post,
    Space,
)

SHAPE = (1, 32, 1, 1, 64)
BYTES = 2 * 32 * 64
X, Y, Z, A, B, C = range(FIRST_VIRTUAL_SLOT, FIRST_VIRTUAL_SLOT + 6)
WEIGHTS = coefficients_at(1, [CoefficientStream(0, 0, 64)])


def table(size: int = BYTES, surfaces: bool = False) -> VirtualBuffers:
    """The ports x, y and z, and the scratch buffers a, b and c."""
    made = VirtualBuffers()
    for kind in (BufferKind.PORT,) * 3 + (BufferKind.SCRATCH,) * 3:
        made.add(VirtualBuffer(size, kind, surface=layout_of(SHAPE) if surfaces and kind is BufferKind.PORT else None))
    return made


def eliminated(operations: list[Operation], blocks: VirtualBuffers | None = None, share: int = 0) -> list[Operation]:
    return [operation for _, operation in forwarded(list(enumerate(operations)), blocks or table(), share, LIMITS)]


def conv(source: int, result: int | Access) -> Convolution:
    return Convolution(source=dense(source, SHAPE), coefficients=WEIGHTS,
                       result=dense(result, SHAPE) if isinstance(result, int) else result)


def scaled(first: Access | int, result: Access | int, scale: float = 2.0) -> Elementwise:
    first, result = (dense(each, SHAPE) if isinstance(each, int) else each for each in (first, result))
    return Elementwise(first=first, result=result, scale=scale)


def turn(source: int, result: int) -> PassThrough:
    """A copy that exchanges channels and width."""
    return PassThrough(source=dense(source, SHAPE), result=turned(dense(result, (1, 64, 1, 1, 32)), 1, 4))


def copy(source: int, result: int) -> PassThrough:
    return PassThrough(source=dense(source, SHAPE), result=dense(result, SHAPE))


def pairs(source: int, result: int) -> PassThrough:
    """A copy of every second channel behind the others: its source is walked as rows of two channels."""
    read = replace(dense(source, SHAPE), shape=(1, 16, 1, 2, 64), strides=(0, 256, 0, 128, 2))
    return PassThrough(source=read, result=replace(read, slot=result, strides=(0, 128, 0, 2048, 2)))


def test_a_result_is_written_turned_at_once():
    operations = [conv(X, A), turn(A, B), scaled(dense(B, (1, 64, 1, 1, 32)), dense(Y, (1, 64, 1, 1, 32)))]
    assert eliminated(operations) == [replace(operations[0], result=turn(A, B).result), operations[2]]
    assert eliminated([conv(X, A), copy(A, Y)]) == [conv(X, Y)]


def test_numbers_of_what_is_left_are_those_it_was_lowered_with():
    steps = [(7, conv(X, A)), (7, copy(A, B)), (9, scaled(B, Y))]
    assert [number for number, _ in forwarded(steps, table(), 0, LIMITS)] == [7, 9]


def test_a_chain_of_copies_falls_away():
    assert eliminated([conv(X, A), copy(A, B), copy(B, C), copy(C, Y)]) == [conv(X, Y)]


def test_a_turn_moves_before_a_function_and_into_what_made_its_source():
    place = turned(turn(B, C).result, 1, 4)
    found = eliminated([conv(X, A), scaled(A, B), turn(B, C), conv(Z, Y)])
    assert found == [replace(conv(X, A), result=turn(B, C).result), scaled(place, place), conv(Z, Y)]
    assert place == dense(C, (1, 64, 1, 1, 32))


@pytest.mark.parametrize("between", [
    PassThrough(source=dense(A, SHAPE), result=dense(Y, SHAPE), post=Post(activation=Activation.RELU)),
    PassThrough(source=dense(A, SHAPE), result=dense(Y, SHAPE), post=Post(scale=0.5)),
    PassThrough(source=dense(A, SHAPE), result=dense(Y, SHAPE), input_relu=True),
    PassThrough(source=dense(A, SHAPE), result=dense(Y, SHAPE), coefficients=WEIGHTS),
    PassThrough(source=replace(dense(A, SHAPE), copy=dense(B, SHAPE, space=Space.L2)), result=dense(Y, SHAPE)),
    PassThrough(source=dense(A, SHAPE), result=replace(dense(Y, SHAPE), copy=dense(B, SHAPE, space=Space.L2))),
    scaled(A, Y, 1.0),
], ids=["ReLU", "scale", "ReLU before", "coefficients", "kept source", "kept result", "planar"])
def test_what_is_no_plain_copy_stays(between):
    operations = [conv(X, A), between]
    assert eliminated(operations) == operations


@pytest.mark.parametrize("operations", [
    [conv(X, A), copy(A, Y), scaled(A, Z)],
    [conv(X, Y), copy(Y, Z)],
    [copy(X, Y)],
    [conv(X, A), scaled(Y, Z), copy(A, Y)],
    [conv(X, A), conv(Z, replace(dense(A, SHAPE), offset=BYTES)), copy(A, Y)],
    [conv(X, A), MatrixProduct(source=dense(Z, SHAPE), result=dense(B, SHAPE), coefficients=coefficients_at(
        A, [CoefficientStream(0, 0, 64)], runtime=True)), copy(A, Y), copy(B, Z)][:3],
    [conv(X, A), PassThrough(source=turned(dense(A, (1, 32, 1, 2, 32)), 3, 4), result=dense(Y, (1, 32, 1, 32, 2)))],
    [replace(conv(X, A), result=replace(dense(A, SHAPE), copy=dense(C, SHAPE, space=Space.L2))), copy(A, Y)],
], ids=["read by another too", "a port in between", "nothing made it", "its place is read before", "made in parts",
        "coefficients of another", "a form no result has", "a result that is kept"])
def test_a_copy_that_must_be_made_stays(operations):
    assert eliminated(operations) == operations


def test_a_turn_stays_behind_a_function_of_two_tensors():
    operations = [replace(scaled(X, A), second=dense(Y, SHAPE)), turn(A, C), conv(C, Z)]
    assert eliminated(operations) == operations


def test_equal_work_is_done_once():
    found = eliminated([scaled(X, A), scaled(X, B), conv(A, Y), conv(B, Z)])
    assert found == [scaled(X, A), conv(A, Y), conv(A, Z)]


def test_what_becomes_equal_is_done_once_too():
    operations = [scaled(X, A), scaled(X, B), scaled(A, C, 3.0), scaled(B, FIRST_VIRTUAL_SLOT + 6, 3.0),
                  replace(scaled(C, Y), second=dense(FIRST_VIRTUAL_SLOT + 6, SHAPE))]
    blocks = table()
    blocks.add(blocks.table[C])
    assert eliminated(operations, blocks) == [scaled(X, A), scaled(A, C, 3.0),
                                              replace(scaled(C, Y), second=dense(C, SHAPE))]


@pytest.mark.parametrize("operations", [
    [scaled(X, A), scaled(X, B, 3.0), conv(A, Y), conv(B, Z)],
    [scaled(X, Y), scaled(X, Z)],
    [scaled(X, A), conv(Z, X), scaled(X, B), conv(A, Y), conv(B, Z)],
    [scaled(X, A), scaled(X, B), scaled(Z, B), conv(A, Y), conv(B, Z)],
    [scaled(replace(dense(X, SHAPE), copy=dense(C, SHAPE, space=Space.L2)), A),
     scaled(replace(dense(X, SHAPE), copy=dense(C, SHAPE, space=Space.L2)), B), conv(A, Y), conv(B, Z)],
], ids=["other work", "both are outputs", "the source changes", "written over", "kept sources"])
def test_what_is_not_the_same_work_is_done_twice(operations):
    assert eliminated(operations) == operations


def test_buffers_of_another_size_are_not_taken_for_each_other():
    blocks = table()
    blocks.table[B] = VirtualBuffer(2 * BYTES, BufferKind.SCRATCH)
    operations = [scaled(X, A), scaled(X, B), conv(A, Y), conv(B, Z)]
    assert eliminated(operations, blocks) == operations


def test_an_input_read_in_two_ways_is_copied_once():
    blocks = table(surfaces=True)
    operations = [pairs(X, A), conv(A, Y), scaled(X, Z)]
    found = eliminated(operations, blocks, BYTES)
    new = FIRST_VIRTUAL_SLOT + 6
    assert blocks.table[new] == VirtualBuffer(BYTES, BufferKind.SCRATCH)
    assert found == [copy(X, new), pairs(new, A), conv(A, Y), scaled(new, Z)]


@pytest.mark.parametrize(("operations", "share", "surfaces"), [
    ([pairs(X, A), conv(A, Y), scaled(X, Z)], BYTES - 1, True),
    ([pairs(X, A), conv(A, Y), scaled(X, Z)], BYTES, False),
    ([pairs(X, A), conv(A, Y)], BYTES, True),
    ([scaled(X, Y), conv(X, Z)], BYTES, True),
    ([copy(X, A), scaled(A, Y), conv(X, Z)], BYTES, True),
    ([pairs(X, A), conv(A, Y), scaled(Z, X)], BYTES, True),
], ids=["more than the share", "no surface", "read once", "never turned", "read alike", "written too"])
def test_an_input_that_is_read_as_it_lies(operations, share, surfaces):
    blocks = table(surfaces=surfaces)
    assert eliminated(operations, blocks, share) == operations
    assert len(blocks.table) == 6


KINDS = st.sampled_from([conv, scaled, turn, copy])


@settings(max_examples=40)
@given(st.lists(st.tuples(KINDS, st.sampled_from([X, Y, A, B, C]), st.sampled_from([Y, Z, A, B, C])), max_size=8))
def test_outputs_are_made_of_the_same_functions_of_the_same_inputs(steps):
    """Every element of every port is what it was, computed with symbols in place of numbers."""
    operations = [make(source, result) for make, source, result in steps if source != result]
    assert computed(eliminated(operations)) == computed(operations)


def computed(operations: list[Operation]) -> dict[int, dict[int, object]]:
    """What lies where in the ports at the end. A convolution is a function of its source whole, and of the place."""
    memory: dict[int, dict[int, object]] = {slot: {} for slot in range(X, C + 1)}
    for operation in operations:
        read = operation.first if isinstance(operation, Elementwise) else operation.source
        values: list[object] = [memory[read.slot].get(place, (read.slot, place)) for place in places(read)]
        if isinstance(operation, Elementwise):
            values = [("scaled", value) for value in values]
        elif isinstance(operation, Convolution):
            whole = hash(tuple(values))
            values = [("conv", whole, number) for number in range(len(values))]
        memory[operation.result.slot].update(zip(places(operation.result), values, strict=True))
    return {slot: memory[slot] for slot in (X, Y, Z)}


def places(access: Access) -> list[int]:
    """Where the elements lie that the loops over channels and width visit."""
    _, c, _, _, w = access.shape
    return [access.offset + channel * access.strides[1] + column * access.strides[4]
            for channel in range(c) for column in range(w)]
