"""Where virtual buffers go: what lives together does not overlap, and ports have the slots for them in order."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from support.h13 import LIMITS, coefficients_at, dense

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import lives
from openane.compiler.schedule.placement import bound, lifetimes, place
from openane.engine import Access, CoefficientStream, Elementwise, MatrixProduct, PassThrough, Space

SHAPE = (1, 4, 1, 8, 32)
BYTES = 2 * 4 * 8 * 32
X, Y, A, B, C = range(FIRST_VIRTUAL_SLOT, FIRST_VIRTUAL_SLOT + 5)


def blocks(*kinds: BufferKind, size: int = BYTES) -> dict[int, VirtualBuffer]:
    """The ports x and y, and a buffer of each kind."""
    made = VirtualBuffers()
    for kind in (BufferKind.PORT, BufferKind.PORT, *kinds):
        made.add(VirtualBuffer(size, kind))
    return made.table


def step(first: int, result: int, spaces=(Space.MEMORY, Space.MEMORY)) -> Elementwise:
    return Elementwise(first=dense(first, SHAPE, space=spaces[0]), result=dense(result, SHAPE, space=spaces[1]))


def test_ports_have_the_first_slots_in_the_order_given():
    places = place([step(X, Y)], blocks(), [Y, X], LIMITS).places
    first = LIMITS.slots.first_port
    assert (places[Y], places[X]) == ((first, 0), (first + 1, 0))


def test_scratch_is_used_again_when_its_buffer_is_done_with():
    operations = [step(X, A), step(A, B), step(B, C), step(C, Y)]
    found = place(operations, blocks(BufferKind.SCRATCH, BufferKind.SCRATCH, BufferKind.SCRATCH), [X, Y], LIMITS)
    assert [found.places[slot] for slot in (A, B, C)] == [(LIMITS.slots.scratch, offset) for offset in (0, BYTES, 0)]
    assert found.scratch == LIMITS.page
    assert (found.l2, found.overflow) == (0, None)


def test_what_lies_in_l2_has_slot_0_there():
    operations = [step(X, A, (Space.MEMORY, Space.L2)), step(A, Y, (Space.L2, Space.MEMORY))]
    found = place(operations, blocks(BufferKind.L2), [X, Y], LIMITS)
    assert found.places[A] == (0, 0)
    assert (found.scratch, found.l2) == (0, BYTES)


def test_buffers_nobody_names_have_no_place():
    found = place([step(X, Y)], blocks(BufferKind.SCRATCH, BufferKind.L2), [X, Y], LIMITS)
    assert found.places.keys() == {X, Y}
    assert (found.scratch, found.l2) == (0, 0)


def test_l2_overflows_from_the_operation_on_that_needs_the_last_of_it():
    half = LIMITS.l2_size // 2
    made = blocks(BufferKind.L2, BufferKind.L2, BufferKind.L2, size=half)
    near = (Space.L2, Space.L2)
    fits = [step(X, A, (Space.MEMORY, Space.L2)), step(A, B, near), step(B, Y, (Space.L2, Space.MEMORY))]
    assert place(fits, made, [X, Y], LIMITS).overflow is None
    more = [step(X, A, (Space.MEMORY, Space.L2)), step(A, B, near), step(A, C, near),
            replace(step(B, Y, (Space.L2, Space.MEMORY)), second=dense(C, SHAPE, space=Space.L2))]
    found = place(more, made, [X, Y], LIMITS)
    assert found.overflow == 2
    assert found.l2 == 3 * half


def test_a_result_that_is_handed_over_keeps_alive_what_both_operations_name():
    chain = Access(space=Space.CHAIN, shape=SHAPE)
    operations = [replace(step(A, B), result=chain), replace(step(B, C), first=chain)]
    assert lifetimes(operations) == {A: (0, 1), C: (0, 1)}
    plain = [step(A, B), step(B, C)]
    assert lifetimes(plain) == {slot: life[:2] for slot, life in lives(plain).items()}


def test_operands_copies_and_coefficients_move_and_real_slots_stay():
    kept = replace(dense(A, SHAPE), offset=64, copy=dense(B, SHAPE, space=Space.L2))
    product = MatrixProduct(source=kept, result=dense(Y, SHAPE),
                            coefficients=coefficients_at(C, [CoefficientStream(0, 128, 64)], runtime=True))
    plain = PassThrough(source=dense(7, SHAPE), result=dense(9, SHAPE))
    places = {A: (3, 4096), B: (0, 1024), C: (3, 512), Y: (5, 0)}
    moved, same = bound([product, plain], places)
    assert same == plain
    assert (moved.source.slot, moved.source.offset, moved.result.slot) == (3, 4096 + 64, 5)
    assert (moved.source.copy.slot, moved.source.copy.offset) == (0, 1024)
    assert moved.coefficients == coefficients_at(3, [CoefficientStream(0, 512 + 128, 64)], runtime=True)
    assert (moved.source.shape, moved.source.strides) == (kept.shape, kept.strides)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=14),
       st.lists(st.tuples(st.sampled_from([BufferKind.SCRATCH, BufferKind.L2]), st.integers(1, 5000)), min_size=8,
                max_size=8))
def test_buffers_alive_together_do_not_overlap(pairs, kinds):
    table = {FIRST_VIRTUAL_SLOT + number: VirtualBuffer(size, kind) for number, (kind, size) in enumerate(kinds)}
    operations = []
    for pair in pairs:
        accesses = [Access(space=Space.L2 if table[FIRST_VIRTUAL_SLOT + number].kind is BufferKind.L2 else Space.MEMORY,
                           slot=FIRST_VIRTUAL_SLOT + number, shape=(1, 1, 1, 1, 1)) for number in pair]
        operations.append(Elementwise(first=accesses[0], result=accesses[1]))
    found, alive = place(operations, table, [], LIMITS), lifetimes(operations)
    assert found.places.keys() == alive.keys()
    for one, other in combinations(alive, 2):
        together = alive[one][0] <= alive[other][1] and alive[other][0] <= alive[one][1]
        (slot, begin), (same, start) = found.places[one], found.places[other]
        if together and slot == same:
            assert begin + table[one].size <= start or start + table[other].size <= begin
    for slot, (_, offset) in found.places.items():
        near = table[slot].kind is BufferKind.L2
        assert offset % LIMITS.alignment(near) == 0
        assert offset + table[slot].size <= (found.l2 if near else found.scratch)
