"""Results handed to the next operation, kept in L2 for later ones, or written over their source."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import LIMITS, dense, turned

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import operands
from openane.compiler.schedule.chaining import chain, in_place, keep
from openane.compiler.schedule.l2_residency import resident_strides
from openane.engine import Access, ChannelMaximum, DType, Elementwise, PassThrough, Space

SHAPE = (1, 8, 1, 4, 64)
BYTES = 2 * 8 * 4 * 64
X, Y, A, B, C = range(FIRST_VIRTUAL_SLOT, FIRST_VIRTUAL_SLOT + 5)
HANDED = Access(space=Space.CHAIN, shape=SHAPE)
SHARE = LIMITS.l2_size // 2


def table(*kinds: BufferKind, size: int = BYTES) -> VirtualBuffers:
    """The ports x and y, and a buffer of each kind."""
    made = VirtualBuffers()
    for kind in (BufferKind.PORT, BufferKind.PORT, *kinds):
        made.add(VirtualBuffer(size, kind))
    return made


def planar(first, result, second=None):
    first, result = (dense(each, SHAPE) if isinstance(each, int) else each for each in (first, result))
    return Elementwise(first=first, result=result, second=second)


def neural(source, result):
    source, result = (dense(each, SHAPE) if isinstance(each, int) else each for each in (source, result))
    return PassThrough(source=source, result=result)


SCRATCH = table(BufferKind.SCRATCH, BufferKind.SCRATCH).table


def test_neighbours_on_both_engines_hand_over():
    assert chain([planar(X, A), neural(A, Y)], SCRATCH) == [planar(X, HANDED), neural(HANDED, Y)]
    assert chain([neural(X, A), planar(A, Y)], SCRATCH) == [neural(X, HANDED), planar(HANDED, Y)]


def test_what_took_a_chain_hands_over_no_other():
    found = chain([planar(X, A), neural(A, B), planar(B, Y)], SCRATCH)
    assert found == [planar(X, HANDED), neural(HANDED, B), planar(B, Y)]


@pytest.mark.parametrize("operations", [
    [planar(X, A), planar(A, Y)],
    [planar(X, A), planar(X, B), neural(A, Y)],
    [planar(X, A), neural(A, Y), neural(A, B)],
    [planar(X, X), neural(X, Y)],
    [planar(X, A), ChannelMaximum(source=dense(A, SHAPE), result=dense(Y, SHAPE), channels=1)],
    [planar(X, A), neural(turned(dense(A, SHAPE), 1, 3), dense(Y, (1, 4, 1, 8, 64)))],
    [planar(X, replace(dense(A, SHAPE), space=Space.L2)), neural(replace(dense(A, SHAPE), space=Space.L2), Y)],
    [planar(X, turned(dense(A, SHAPE), 1, 4)), neural(turned(dense(A, SHAPE), 1, 4), Y)],
    [neural(X, A), planar(X, Y, second=dense(A, SHAPE))],
    [],
], ids=["one engine", "one between", "two readers", "a port", "channels reduced", "walked otherwise", "in L2",
        "width not contiguous", "second operand", "nothing"])
def test_what_is_not_handed_over(operations):
    assert chain(operations, SCRATCH) == operations


def near(slot, shape=SHAPE):
    return dense(slot, shape, space=Space.L2)


L2 = table(BufferKind.L2, BufferKind.L2, BufferKind.L2).table


def test_a_function_of_one_tensor_writes_over_it():
    operations = [planar(X, near(A)), planar(near(A), near(B)), neural(near(B), near(C)), planar(near(C), Y)]
    assert in_place(operations, L2) == [planar(X, near(A)), planar(near(A), near(A)), neural(near(A), near(A)),
                                        planar(near(A), Y)]


@pytest.mark.parametrize("operations", [
    [planar(X, near(A)), planar(near(A), near(B)), planar(near(A), Y), planar(near(B), Y)],
    [planar(X, near(B)), planar(X, near(A)), planar(near(A), near(B)), planar(near(B), Y)],
    [planar(X, near(A)), planar(near(A), near(B), near(A)), planar(near(B), Y)],
    [planar(X, near(A)), planar(near(A), turned(near(B), 1, 3)), planar(near(B), Y)],
    [planar(X, A), planar(A, near(B)), planar(near(B), Y)],
    [planar(X, near(A)), ChannelMaximum(source=near(A), result=near(B), channels=1), planar(near(B), Y)],
    [planar(X, near(A)), planar(replace(near(A), copy=near(C)), near(B)), planar(near(B), Y)],
], ids=["needed later", "began before", "two operands", "walked otherwise", "in memory", "channels reduced",
        "has a copy"])
def test_what_is_not_written_over(operations):
    assert in_place(operations, L2) == operations


def test_buffers_of_other_sizes_are_not_written_over():
    blocks = dict(L2) | {B: VirtualBuffer(2 * BYTES, BufferKind.L2)}
    operations = [planar(X, near(A)), planar(near(A), near(B)), planar(near(B), Y)]
    assert in_place(operations, blocks) == operations


def kept_form(slot, new):
    """A tensor with what it leaves in L2, and what later operations read."""
    whole = dense(slot, SHAPE)
    resident = replace(whole, space=Space.L2, slot=new, strides=resident_strides(whole, LIMITS)[1])
    return replace(whole, copy=resident), resident


def test_the_first_reader_leaves_a_copy_for_the_others():
    blocks = table(BufferKind.SCRATCH)
    new = FIRST_VIRTUAL_SLOT + len(blocks.table)
    first, resident = kept_form(X, new)
    operations = [planar(X, A), neural(X, Y), planar(X, Y)]
    assert keep(operations, blocks, SHARE, LIMITS) == [planar(first, A), neural(resident, Y), planar(resident, Y)]
    assert blocks.table[new] == VirtualBuffer(resident_strides(dense(X, SHAPE), LIMITS)[0], BufferKind.L2)


def test_what_is_made_leaves_a_copy_for_who_reads_it():
    blocks = table(BufferKind.SCRATCH)
    made, resident = kept_form(A, FIRST_VIRTUAL_SLOT + len(blocks.table))
    assert keep([planar(X, A), planar(A, Y)], blocks, SHARE, LIMITS) == [planar(X, made), planar(resident, Y)]


@pytest.mark.parametrize("operations", [
    [planar(X, Y), planar(turned(dense(X, SHAPE), 1, 3), turned(dense(Y, SHAPE), 1, 3))],
    [planar(X, Y), planar(A, Y)],
    [planar(X, A, dense(X, SHAPE))],
    [planar(replace(dense(X, SHAPE), strides=(0, 0, 0, 128, 2)), A)] * 2,
    [planar(dense(5, SHAPE), near(A)), planar(dense(5, SHAPE), near(A))],
    [planar(near(A), near(B)), planar(near(A), near(B))],
], ids=["walked otherwise", "read once", "one operation", "broadcast", "a real slot", "in L2"])
def test_what_is_not_kept(operations):
    operations = [replace(each, result=near(C)) for each in operations]
    blocks = table(BufferKind.SCRATCH, BufferKind.SCRATCH, BufferKind.L2)
    before = dict(blocks.table)
    assert keep(operations, blocks, SHARE, LIMITS) == operations
    assert blocks.table == before


def test_what_is_written_between_is_read_again():
    blocks = table(BufferKind.L2, BufferKind.L2)
    operations = [planar(X, near(A)), planar(near(B), X), planar(X, near(A))]
    found = keep(operations, blocks, SHARE, LIMITS)
    written, resident = kept_form(X, FIRST_VIRTUAL_SLOT + 4)
    assert found == [operations[0], planar(near(B), written), planar(resident, near(A))]


def test_a_share_holds_what_saves_most():
    size = resident_strides(dense(X, SHAPE), LIMITS)[0]
    operations = [planar(X, near(C)), planar(Y, near(C)), planar(Y, near(C)), planar(Y, near(C)), planar(X, near(C))]
    residents = table(BufferKind.SCRATCH, BufferKind.SCRATCH, BufferKind.L2)
    share = size + residents.table[C].size
    found = keep(operations, residents, share, LIMITS)
    assert [each.first.space for each in found] == [Space.MEMORY, Space.MEMORY, Space.L2, Space.L2, Space.MEMORY]
    assert keep(operations, table(BufferKind.SCRATCH, BufferKind.SCRATCH, BufferKind.L2), share - 1,
                LIMITS) == operations


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), *[st.sampled_from([X, Y, A, B])] * 2), max_size=10), st.integers(0, 5 * BYTES))
def test_every_operation_reads_and_writes_the_same_elements(steps, share):
    """What is kept has the elements that were last written to the tensor it is a copy of."""
    operations = [(planar if first else neural)(source, result) for first, source, result in steps]
    blocks = table(BufferKind.SCRATCH, BufferKind.SCRATCH)
    found = keep(operations, blocks, share, LIMITS)
    versions: dict[int, int] = {}
    held: dict[int, tuple[int, int]] = {}
    for number, (before, after) in enumerate(zip(operations, found, strict=True)):
        for (role, old), (_, new) in zip(operands(before), operands(after), strict=True):
            if role == "result":
                versions[old.slot] = number + 1
            now = old.slot, versions.get(old.slot, 0)
            assert new == old if new.space is Space.MEMORY and new.copy is None else True
            assert new.space is Space.MEMORY or held[new.slot] == now
            if new.copy is not None:
                held[new.copy.slot] = now
            assert (new.shape, new.dtype) == (old.shape, DType.FLOAT16)
