"""How tasks of H14 to H18 are written: runs, tags, sizes, markers, and that reading gives back what was written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13_operations import neural_operations, planar_operations, with_plain_second

from openane.chips import described_generations, get_chip
from openane.chips.frame_writer import cover
from openane.chips.runs import RELATIVE, SLOT
from openane.engine import (
    Access,
    CoefficientSection,
    CoefficientStream,
    Elementwise,
    Operation,
    PassThrough,
    Space,
)

LATER = described_generations()[1:]


@given(st.sets(st.integers(0, 120), min_size=1))
def test_runs_write_each_register_once_in_order(words: set[int]) -> None:
    addresses = tuple(4 * word for word in sorted(words))
    runs = cover(addresses)
    assert tuple(address for run in runs for address in run) == addresses
    for run in runs:
        adjacent = run[-1] - run[0] == 4 * (len(run) - 1)
        assert (adjacent and len(run) <= 64) or run[-1] - run[0] <= 64


@pytest.mark.parametrize(("words", "runs"), [
    ((0, 1, 2), ((0, 1, 2),)),
    ((0, 2), ((0, 2),)),                              # two alone would take two heads
    ((0, 1, 2, 3, 9), ((0, 1, 2, 3, 9),)),            # one sparse run reaches them all
    ((0, 1, 17, 18), ((0, 1), (17, 18))),             # as few heads with adjacent words
    ((0, 17), ((0,), (17,))),
    (tuple(range(70)), (tuple(range(64)), tuple(range(64, 70)))),
])
def test_runs_are_as_few_as_can_be(words: tuple[int, ...], runs: tuple[tuple[int, ...], ...]) -> None:
    found = cover(tuple(4 * word for word in words))
    assert tuple(tuple(address // 4 for address in run) for run in found) == runs


def stated(access: Access | None) -> Access | None:
    """An access without the strides of extents of one step, which framed tasks do not state."""
    if access is None or access.space is Space.CHAIN:
        return access
    strides: Any = tuple(0 if extent == 1 else stride
                         for extent, stride in zip(access.shape, access.strides, strict=True))
    return replace(access, strides=strides, copy=stated(access.copy))


def comparable(operation: Operation) -> Operation:
    """An operation without what tasks do not state: strides of one step, and which cores read a table."""
    changes: dict[str, Any] = {name: stated(getattr(operation, name))
                               for name in ("source", "first", "second", "result") if hasattr(operation, name)}
    coefficients = getattr(operation, "coefficients", None)
    if coefficients is not None:
        table = coefficients.table
        changes["coefficients"] = replace(coefficients, table=None if table is None else CoefficientSection.of(
            table.slot, [CoefficientStream(0, table.streams.start, 0)]))
    return replace(operation, **changes)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(operation=neural_operations() | planar_operations(), name=st.sampled_from(LATER))
def test_decode_of_encode_is_the_operation(operation: Operation, name: str) -> None:
    operation = with_plain_second(operation)
    chip = get_chip(name)
    (task,) = chip.emit([operation])
    fields = chip.decode(task.words)
    assert chip.encode(fields) == task.words
    assert not fields.rest
    assert comparable(chip.operation(task.words)) == comparable(operation)


def relu(width: int, slot: int, result: int) -> PassThrough:
    shape = (1, 16, 1, 4, width)
    strides = (0, 4 * 64, 0, 64, 2)
    return PassThrough(source=Access(slot=slot, shape=shape, strides=strides),
                       result=Access(slot=result, shape=shape, strides=strides), input_relu=True)


@pytest.mark.parametrize("name", LATER)
def test_tasks_state_their_number_size_and_slots(name: str) -> None:
    chip = get_chip(name)
    tasks = chip.emit([relu(16, 7, 8), relu(16, 8, 9), relu(16, 9, 10)])
    offset = chip.limits.first_task
    for index, task in enumerate(tasks):
        values = chip.decode(task.words).values
        assert task.offset == offset
        assert chip.task_size(task.words) == len(task.words)
        assert values["Header.Task.TID"] == index
        assert {values[field] for field in values if field.endswith(".UserTag")} == {index}
        assert values[f"Slots.RBase0.{SLOT.name}"] == 7 + index
        assert values[f"Slots.WBase.{RELATIVE.name}"] == 1
        assert values.get("KernelDMA.Control.Last", 0) == (index == 2)
        offset = -(-(offset + 4 * len(task.words)) // 16) * 16


def near(number: int) -> Access:
    return Access(space=Space.L2, offset=32 * number, shape=(1, 1, 1, 1, 16), strides=(0, 0, 0, 0, 2))


def test_no_padded_task_of_h14_ends_at_a_multiple_of_64_bytes() -> None:
    chip = get_chip("h14")
    kinds = (lambda i: relu(16, 7, 8), lambda i: Elementwise(first=near(i), result=near(i), relu=True),
             lambda i: Elementwise(first=near(i), second=near(i), result=near(i)),
             lambda i: Elementwise(first=near(i), second=near(i), result=near(i), scale=0.5, negate=True))
    tasks = chip.emit([kinds[i % len(kinds)](i) for i in range(40)])
    ends = [-(-(task.offset + 4 * len(task.words)) // 16) * 16 for task in tasks]
    assert all(end % 64 for end in ends)
    marked = [0xDEAD in task.words for task in tasks]
    assert any(marked)
    assert not all(marked)


@pytest.mark.parametrize("name", LATER)
def test_what_is_live_in_l2_is_said_by_blocks(name: str) -> None:
    shape, strides = (1, 1, 1, 1, 16), (0, 0, 0, 0, 2)
    near = Access(space=Space.L2, offset=0x10000 * 3, shape=shape, strides=strides)
    far = Access(slot=9, shape=shape, strides=strides)
    chip = get_chip(name)
    tasks = chip.emit([PassThrough(source=replace(far, slot=7), result=near), PassThrough(source=near, result=far)])
    header = "Header.LiveOuts.LiveOuts" if name in ("h14", "h15") else "Header.Flags.LiveOuts"
    assert [chip.decode(task.words).values[header] for task in tasks] == [8, 0]
