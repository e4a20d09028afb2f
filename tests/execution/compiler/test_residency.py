"""Intermediates in L2, handed over between engines, and sources read once: the same numbers with less traffic."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import LIMITS

from openane.chips import get_chip
from openane.compiler import Model, compile
from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer
from openane.compiler.schedule.l2_residency import resident_strides, settle
from openane.compiler.schedule.pipeline import resident
from openane.engine import Access, Elementwise, Operation, PassThrough, Space
from openane.ops.build import GraphBuilder
from openane.program.verify import verify

CHIP = get_chip("h13")


def operations(model: Model) -> list[Operation]:
    return [CHIP.operation(task.words) for task in model.program.tasks]


def spaces(operation: Operation) -> tuple[Space, Space]:
    source = operation.source if isinstance(operation, PassThrough) else operation.first
    return source.space, operation.result.space


def test_a_chain_of_small_operations_touches_memory_at_its_ends_only(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16, 12, 20))
    y = builder.single("tanh", x=builder.single("mul", x=builder.single("abs", x=x), y=np.float16(0.5)))
    y = builder.single("sub", x=y, y=np.float16(0.25))
    model = compare(builder.finish({"y": y}))
    found = [spaces(operation) for operation in operations(model)]
    assert found[0][0] is Space.MEMORY
    assert found[-1][1] is Space.MEMORY
    assert all(space is Space.L2 for pair in zip(found[1:], found, strict=False) for space in (pair[0][0], pair[1][1]))
    assert not any(buffer.name == "scratch" for buffer in model.program.buffers)


def test_tensors_beyond_l2_are_handed_over_between_the_engines():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 1, 1280, 1600))
    y = builder.single("mul", x=builder.single("tanh", x=x), y=np.float16(0.75))
    model = compile(builder.finish({"y": y}))
    first, second = operations(model)
    assert isinstance(first, PassThrough)
    assert isinstance(second, Elementwise)
    assert (first.result.space, second.first.space) == (Space.CHAIN, Space.CHAIN)
    verify(model.program)


def test_a_source_read_by_several_operations_is_read_from_memory_once(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 9, 9))
    y = builder.single("mul", x=builder.single("tanh", x=x), y=builder.single("sigmoid", x=x))
    model = compare(builder.finish({"y": builder.single("add", x=y, y=x)}))
    reads = [access for operation in operations(model) for access in
             ([operation.source] if isinstance(operation, PassThrough) else [operation.first, operation.second])
             if access is not None and access.space is Space.MEMORY]
    assert len(reads) == 1
    assert reads[0].copy is not None


def test_an_output_that_is_read_later_is_written_and_kept(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 9, 9))
    t = builder.single("tanh", x=x)
    model = compare(builder.finish({"t": t, "y": builder.single("mul", x=t, y=t)}))
    first, second = operations(model)
    assert first.result.copy is not None
    assert second.first.space is Space.L2


SHAPES = st.tuples(*(st.integers(1, 9) for _ in range(5)))


@given(SHAPES, st.booleans())
def test_resident_layouts_are_addressable_and_do_not_overlap(shape, swapped):
    row = 64 * -(-shape[1 if swapped else 4] * 2 // 64)
    plane = row * shape[4 if swapped else 1]
    strides = (plane * shape[2] * shape[3], 2, plane * shape[3], plane, row) if swapped else \
        (plane * shape[2] * shape[3], row, plane * shape[3], plane, 2)
    access = Access(slot=FIRST_VIRTUAL_SLOT, shape=shape, strides=strides)
    size, resident_form = resident_strides(access, LIMITS)
    places = sum(np.arange(e).reshape([-1 if i == d else 1 for i in range(5)]) * s
                 for d, (e, s) in enumerate(zip(shape, resident_form, strict=True)))
    assert len(np.unique(places)) == places.size
    assert places.max() + 2 <= size
    assert all(stride % 16 == 0 or stride == 2 for stride in resident_form)


@given(st.lists(st.integers(1, 40), min_size=3, max_size=8), st.integers(0, 1 << 14))
def test_residents_never_exceed_their_share(channels, share):
    """Buffer after buffer is copied into the next one, as far as both reach."""
    blocks, chain = {}, []
    for number, count in enumerate(channels):
        inner = 0 < number < len(channels) - 1
        kind = BufferKind.SCRATCH if inner else BufferKind.PORT
        blocks[FIRST_VIRTUAL_SLOT + number] = VirtualBuffer(count * 256, kind, f"p{number}")
    for number, pair in enumerate(pairwise(channels)):
        source, result = (Access(slot=FIRST_VIRTUAL_SLOT + number + i, shape=(1, min(pair), 1, 4, 8),
                                 strides=(0, 256, 0, 64, 2)) for i in (0, 1))
        chain.append(PassThrough(source=source, result=result))
    settled, table = settle(chain, blocks, share, LIMITS)
    assert [op.source.shape for op in settled] == [op.source.shape for op in chain]
    for operation in settled:
        alive = [a.slot for a in (operation.source, operation.result) if a.space is Space.L2]
        assert sum(table[slot].size for slot in alive) <= share


@pytest.mark.parametrize("share", [0, 1 << 12, 1 << 20])
def test_every_share_gives_the_same_numbers(share, execute, monkeypatch):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3, 10, 10))
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float16) / 4
    y = builder.single("conv", x=x, weight=weight, pad_type="same")
    y = builder.single("softmax", x=builder.single("transpose", x=y, perm=[0, 2, 3, 1]), axis=-1)
    graph = builder.finish({"y": builder.single("concat", values=(y, builder.single("abs", x=y)), axis=1)})
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 3, 10, 10)).astype(np.float16)}
    expected = execute(compile(graph), inputs, "exact")["y"]
    monkeypatch.setattr("openane.compiler.schedule.pipeline.resident",
                        lambda ops, blocks, _, limits, *rest: resident(ops, blocks, share, limits))
    model = compile(graph)
    verify(model.program)
    np.testing.assert_array_equal(execute(model, inputs, "exact")["y"], expected)


def test_two_inputs_first_read_by_one_operation_and_turned_later_are_both_copied(hold):
    builder = GraphBuilder()
    x, y = (builder.input(name, "fp16", (1, 4, 8, 20)) for name in "xy")
    outputs = {"sum": builder.single("add", x=x, y=y)}
    outputs |= {f"turned_{v.name}": builder.single("transpose", x=v, perm=[0, 3, 2, 1]) for v in (x, y)}
    hold(builder.finish(outputs))


def test_rings_spare_a_tensor_that_is_written_in_parts(hold):
    """The parts of a padded tensor lie between each other; what one of them spans is not all its own."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 64, 1, 128))
    hold(builder.finish({"y": builder.single("pad", x=x, pad=[1, 2, 0, 2], constant_val=np.float16(0.5))}))


def test_a_column_that_a_copy_reads_keeps_a_layout_it_can_read(hold):
    builder = GraphBuilder()
    x = builder.single("tanh", x=builder.input("x", "fp16", (16, 1, 8)))
    model = hold(builder.finish({"y": builder.single("transpose", x=x, perm=[0, 2, 1])}))
    assert not any(buffer.name == "scratch" for buffer in model.program.buffers)


def test_an_output_that_is_a_view_of_what_was_made_may_be_read_on(hold):
    """Its port has the surface of the tensor before the reshape; the reader gets a reshaped copy."""
    builder = GraphBuilder()
    x = builder.single("relu", x=builder.input("x", "fp16", (1, 3, 6, 5)))
    row = builder.single("reshape", x=x, shape=[1, 90])
    hold(builder.finish({"row": row, "tanh": builder.single("tanh", x=row)}))
