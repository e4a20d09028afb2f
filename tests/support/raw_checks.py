"""Checks of programs from raw words, which share nothing with the verifier: the order of tasks, and slots in use."""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import get_chip
from openane.program import Program

DATA_SETS = 4
"""The slot of data sets of later generations, which nothing is bound to."""


def chain_defect(program: Program) -> str:
    """What is wrong with the order of tasks, by going through the text the way the engine does, from raw header
    words."""
    return _linked_defect(program) if get_chip(program.chip).linked else _frames_defect(program)


def _linked_defect(program: Program) -> str:
    placed = {task.offset: task.words for task in program.tasks}
    offset, size, visited = 0, len(program.tasks[0].words) if program.tasks else 0, 0
    while True:
        words = placed.get(offset)
        if words is None or words != (program.tasks[visited].words if visited < len(program.tasks) else None):
            return f"task {visited} is not at {offset:#x}"
        if len(words) != size or offset % 16 or len(words) < 11:
            return f"task {visited} has {len(words)} words, announced were {size}"
        last = visited == len(program.tasks) - 1
        if words[0] & 0x3FFFFFF != visited | (visited > 0) << 24 | last << 25:
            return f"task {visited} has identity {words[0]:#x}"
        if last:
            return "" if words[7] == 0 and words[1] >> 16 == 0 else "the last task goes on"
        offset, size, visited = words[7], (words[1] >> 16 & 0x1FF) + 1, visited + 1


def _frames_defect(program: Program) -> str:
    offset = 16
    for number, task in enumerate(program.tasks):
        if task.offset != offset:
            return f"task {number} is at {task.offset:#x}, not {offset:#x}"
        if len(task.words) < 8 or task.words[0] != number | len(task.words) << 16:
            return f"task {number} has {len(task.words)} words and identity {task.words[:1]}"
        offset += -(-4 * len(task.words) // 16) * 16
    return "" if program.tasks else "there is no task"


def unbound_slot(program: Program) -> int | None:
    """A base slot that a task enables but nothing is bound to, from raw words."""
    if get_chip(program.chip).linked:
        return _unbound_in_headers(program)
    bound = {1, DATA_SETS, *program.constant_ranges, *(buffer.slot for buffer in program.buffers)}
    return next((slot for task in program.tasks for slot in _slots_of_runs(program.chip, task.words)
                 if slot not in bound), None)


def _slots_of_runs(name: str, words: tuple[int, ...]) -> Iterator[int]:
    """The slots that the heads of a task's runs name."""
    at = 9 if name > "h15" or (name == "h14" and words[7] & 2) else 8
    while at < len(words):
        head = words[at]
        if head >> 31:
            at += 2 + (head >> 15 & 0xFFFF).bit_count()
        else:
            if head >> 29 & 1:
                yield head >> 23 & 0x1F
            at += 2 + (head >> 15 & 0x3F)


def _unbound_in_headers(program: Program) -> int | None:
    """Slot 3 may be idle."""
    bound = {1, *(buffer.slot for buffer in program.buffers)}
    for task in program.tasks:
        for word in task.words[8:10]:
            for low in (0, 6, 12) if word is task.words[8] else (0, 6, 12, 18):
                slot = word >> low & 0x1F
                if word >> low + 5 & 1 and slot not in bound and slot != 3:
                    return slot
    return None
