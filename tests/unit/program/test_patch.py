"""Patches: constants in place, single fields of tasks, and refusals that say why."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import layout_of

from openane.chips import get_chip
from openane.engine import Access, Elementwise
from openane.errors import ProgramError, VerifyError
from openane.program import Buffer, Program, Role, Task
from openane.program.patch import changed_ranges, edit_task, patch_constants

H13 = get_chip("h13")
A = Access(slot=4, shape=(1, 16, 1, 4, 32), strides=(0x1000, 0x100, 0x1000, 0x40, 2))
TASKS = tuple(Task(e.words, e.offset) for e in H13.emit([Elementwise(first=A, result=A)] * 2))
PROGRAM = Program("h13", TASKS, bytes(100))


def test_constants_are_written_in_place() -> None:
    patched = patch_constants(PROGRAM, {10: b"\1\2\0\3", 50: b"\0\0", 90: b"\4"})
    assert patched.ranges == ((10, 12), (13, 14), (90, 91))
    assert patched.changed == 4
    assert patched.program.constants[10:14] == b"\1\2\0\3"
    assert patched.program.tasks == TASKS


@pytest.mark.parametrize("offset", [-1, 98, 101, 1 << 70])
def test_pieces_outside_the_constants_are_refused(offset: int) -> None:
    with pytest.raises(ProgramError, match="do not lie in the 100 bytes"):
        patch_constants(PROGRAM, {offset: b"abc"})


@given(st.binary(max_size=9000), st.data())
def test_ranges_are_exactly_the_bytes_that_differ(before: bytes, data: st.DataObject) -> None:
    after = bytearray(before)
    for place in data.draw(st.lists(st.integers(0, max(len(before) - 1, 0)), max_size=20)) if before else ():
        after[place] ^= 1
    ranges = list(changed_ranges(before, bytes(after)))
    assert {i for start, end in ranges for i in range(start, end)} == {
        i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y}
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


def test_a_field_changes_its_bits() -> None:
    edited = edit_task(PROGRAM, 1, {"Common.InDim.W": 8, "TileDMASrc.RowStride.Stride": 0x80}, checked=False)
    assert edited.tasks[0] == TASKS[0]
    before, after = (H13.decode(t.words) for t in (TASKS[1], edited.tasks[1]))
    assert {k: v for k, v in after.values.items() if before.values[k] != v} == {
        "Common.InDim.W": 8, "TileDMASrc.RowStride.Stride": 0x80}
    assert after.rest == before.rest
    assert edit_task(edited, 1, {"Common.InDim.W": 32, "TileDMASrc.RowStride.Stride": 0x40}, checked=False) == PROGRAM


@pytest.mark.parametrize(("fields", "message"), [
    ({"Common.InDim.Win": 8}, "did you mean Common.InDim.W"),
    ({"Common.InDim.W": 1 << 15}, "outside 0..32767"),
    ({"Common.Cfg.TaskType": "none"}, "must be one of"),
    ({"TileDMASrc.RowStride.Stride": 3}, "multiple of 64"),
    ({"KernelDMA.CoeffBaseAddr[3].Addr": 64}, "outside every run"),
    ({"Header.Dependency.DTID": 3}, "does not write this register"),
])
def test_wrong_edits_are_refused(fields: dict[str, int | str], message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        edit_task(PROGRAM, 1, fields)  # type: ignore[arg-type]
    assert caught.value.task == 1


def test_a_task_that_is_not_there() -> None:
    with pytest.raises(ProgramError, match="tasks 0 to 1"):
        edit_task(PROGRAM, 2, {})


def test_edits_are_verified_again() -> None:
    shape = (1, 2, 1, 4, 32)
    layout = layout_of(shape)
    access = Access(slot=4, shape=shape, strides=layout.strides)
    operation = Elementwise(first=access, result=Access(slot=5, shape=shape, strides=layout.strides))
    tasks = tuple(Task(task.words, task.offset) for task in get_chip("h13").emit([operation]))
    buffers = (Buffer("x", 4, Role.INPUT, layout.size, layout), Buffer("y", 5, Role.OUTPUT, layout.size, layout))
    program = Program("h13", tasks, b"", buffers)
    assert edit_task(program, 0, {"PE.BiasScale.Scale": 0.5}) != program
    with pytest.raises(VerifyError, match="TileDMADst"):
        edit_task(program, 0, {"TileDMADst.PlaneStride.Stride": 0x1000})
