"""Comparisons: what was changed is what is reported, in words and in bits; inserted tasks are inserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.h13 import coefficients_at, layout_of

from openane.chips import get_chip
from openane.engine import Access, Binary, CoefficientStream, Convolution, Elementwise, Operation, Post
from openane.formats import load_program
from openane.program import Buffer, Program, Role, Task
from openane.program.diff import Diff, diff, diff_document, diff_lines
from openane.program.patch import edit_task, patch_constants

H13 = get_chip("h13")
SHAPE = (1, 16, 1, 4, 40)
SURFACE = layout_of(SHAPE)


def access(slot: int) -> Access:
    return Access(slot=slot, shape=SHAPE, strides=SURFACE.strides)


def program(operations: Sequence[Operation], constants: bytes = b"") -> Program:
    tasks = tuple(Task(e.words, e.offset) for e in H13.emit(operations))
    buffers = (Buffer("a", 4, Role.INPUT, SURFACE.size, SURFACE), Buffer("b", 5, Role.INPUT, SURFACE.size, SURFACE),
               Buffer("s", 3, Role.SCRATCH, SURFACE.size), Buffer("y", 6, Role.OUTPUT, SURFACE.size, SURFACE))
    return Program("h13", tasks, constants, buffers, "net")


ADD = Elementwise(first=access(4), second=access(5), result=access(3))
MULTIPLY = replace(ADD, first=access(3), function=Binary.MULTIPLY, result=access(6))
CONVOLUTION = Convolution(
    source=access(4), result=access(3),
    coefficients=coefficients_at(1, tuple(CoefficientStream(core, 64 * core, 64) for core in range(16))))
CONSTANTS = bytes(range(256)) * 4


def test_a_program_is_the_same_as_itself() -> None:
    found = diff(program([ADD, MULTIPLY]), program([ADD, MULTIPLY]))
    assert found.same
    assert found == Diff()
    assert list(diff_lines(found)) == []
    assert diff_document(found)["same"] is True


def test_an_edited_field_is_named_in_words_and_in_bits() -> None:
    before = program([ADD, MULTIPLY])
    found = diff(before, edit_task(before, 1, {"TileDMADst.RowStride.Stride": 0x100}, checked=False))
    [task] = found.tasks
    assert (task.kind, task.before, task.after) == ("changed", 1, 1)
    [field] = task.fields
    assert (field.name, field.before, field.after) == ("TileDMADst.RowStride.Stride", 0x80, 0x100)
    assert (field.address, field.bits) == (0x17808, "[31:6]")
    [change] = task.attributes
    assert (change.name, change.before, change.after, change.unit) == ("result row stride", 128, 256, "bytes")
    assert change.fields == ("TileDMADst.RowStride.Stride",)
    text = "\n".join(diff_lines(found))
    assert "result row stride 128 -> 256 bytes  (TileDMADst.RowStride.Stride)" in text
    assert "0x80 -> 0x100  bits [31:6] of word 0x17808" in text


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_inserted_task_is_inserted_not_a_change_of_all_that_follow(place: int) -> None:
    operations: list[Operation] = [ADD, MULTIPLY]
    longer = [*operations[:place], replace(CONVOLUTION, post=Post(scale=0.5)), *operations[place:]]
    found = diff(program(operations, CONSTANTS), program(longer, CONSTANTS))
    assert [(t.before, t.after) for t in found.tasks if t.kind == "inserted"] == [(None, place)]
    assert not any(t.kind == "removed" for t in found.tasks)
    assert all(not [a for a in t.attributes if a.name != "place in the text"] for t in found.tasks)
    back = diff(program(longer, CONSTANTS), program(operations, CONSTANTS))
    assert [(t.before, t.after) for t in back.tasks if t.kind == "removed"] == [(place, None)]
    assert "inserted: Convolution 1x1" in "\n".join(diff_lines(found))


def test_changed_constants_are_told_by_task_and_core() -> None:
    before = program([CONVOLUTION, MULTIPLY], CONSTANTS)
    after = patch_constants(before, {64 * 5 + 8: b"\xff\xff\xff"}).program
    found = diff(before, after)
    assert not found.tasks
    [change] = found.constants
    assert (change.task, change.what, change.core) == (0, "coefficients", 5)
    assert (change.halfwords, change.total, change.first) == (2, 32, (64 * 5 + 8, 64 * 5 + 10))
    assert "task 0: coefficients of core 5: 2 of 32 halfwords differ, first at constants+0x148, 0x14a" \
        in "\n".join(diff_lines(found))


def test_constants_nobody_reads_are_compared_too() -> None:
    before = program([CONVOLUTION], CONSTANTS + bytes(64))
    found = diff(before, replace(before, constants=CONSTANTS + bytes(10) + b"\1" + bytes(53)))
    [change] = found.constants
    assert (change.task, change.first) == (None, (1034,))


def test_a_changed_kind_is_one_changed_task() -> None:
    found = diff(program([ADD, MULTIPLY]), program([CONVOLUTION, MULTIPLY]))
    assert (found.tasks[0].kind, found.tasks[0].before) == ("changed", 0)
    assert found.tasks[0].attributes[0].name == "operation"


def test_buffers_names_and_chips() -> None:
    before = program([ADD])
    buffers = tuple(replace(b, size=b.size + 64) if b.name == "a" else b for b in before.buffers if b.name != "b")
    found = diff(before, replace(before, buffers=buffers, name="other"))
    assert {(c.buffer, c.what) for c in found.buffers} == {("a", "size"), ("b", "buffer")}
    assert found.names == ("net", "other")
    assert diff(before, replace(before, chip="h99")).chips == ("h13", "h99")
    assert "buffer b: removed" in "\n".join(diff_lines(found))


def test_words_that_are_no_tasks_are_compared_as_words() -> None:
    a, b = (Program("h13", (Task((1, 2, last)),)) for last in (3, 4))
    [task] = diff(a, b).tasks
    assert [(f.name, f.before, f.after) for f in task.fields] == [("word 2", 3, 4)]


def test_long_programs_are_aligned_too() -> None:
    many: list[Operation] = [ADD, MULTIPLY] * 550
    before = program(many)
    after = replace(before, tasks=(*before.tasks[:500], *before.tasks[501:]))
    kinds = [t.kind for t in diff(edit_task(before, 0, {"Header.Next.ExeCycles": 1}, checked=False), after).tasks]
    assert kinds.count("removed") == 1


def test_apple_programs(corpus: Path) -> None:
    log, log2 = (load_program(corpus / f"apple/anec/{name}.anec") for name in ("log", "log2"))
    found = diff(log2, log)
    assert [t.kind for t in found.tasks if t.kind != "changed"] == ["inserted"]
    for name in ("softmax", "frac", "conv"):
        file = next(corpus.glob(f"apple/*/{name}.anec"))
        assert diff(load_program(file), load_program(file)).same
