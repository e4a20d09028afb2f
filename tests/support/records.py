"""Reads the records of Apple's compiler: JSON documents that hold every register word of every task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openane.chips import get_chip
from openane.program import Task


def record_words(task: dict[str, Any]) -> tuple[int, ...]:
    """The words of a recorded task: its header, then each run of register writes behind its head."""
    words = [int(word, 16) for word in task["header"]]
    if task.get("ext") is not None:
        words.append(int(task["ext"], 16))
    registers = {int(address, 16): int(word, 16) for address, word in task["regs"].items()}
    for base, count in task["records"]:
        address = int(base, 16)
        words += [(count - 1) << 26 | address, *(registers.get(address + 4 * i, 0) for i in range(count))]
    return tuple(words)


def record_tasks(record: dict[str, Any], chip: str = "h13") -> Iterator[Task]:
    """The tasks of a record at their offsets in the text."""
    offset = 0
    for task in record["tasks"]:
        words = record_words(task)
        yield Task(words, offset)
        offset = get_chip(chip).next_task(words)[0]
