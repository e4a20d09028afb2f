"""Reads the records of Apple's compiler: JSON documents that hold every register word of every task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from records.reading import record_words

from openane.chips import get_chip
from openane.program import Task

HEADER_WORDS = {"h14": 8, "h15": 8, "h16": 9, "h17": 9, "h18": 9}
"""Words of a task's header that every task has."""


def record_tasks(record: dict[str, Any], chip: str = "h13") -> Iterator[Task]:
    """The tasks of a record at their offsets in the text."""
    offset = 0
    for task in record["tasks"]:
        words = record_words(task)
        yield Task(words, offset)
        offset = get_chip(chip).next_task(words)[0]


def generation_words(record: dict[str, Any], name: str) -> list[tuple[int, ...]]:
    """The words of every task of a record of H14 to H18: its header, then each run's head and its words."""
    chip = get_chip(name)
    tasks = []
    for task in record["task_descriptors"]:
        registers = {int(a, 16): int(w, 16) for block in task["blocks"].values() for a, w in block["words"].items()}
        words = [int(word, 16) for word in task["header_words"]]
        for run in task["records"]:
            head = int(run["header"], 16)
            alone = (*words[:HEADER_WORDS[name] - 1], 1, head, *(0,) * run["count"])
            words += [head, *(registers[address] for address in chip.addresses(chip.decode(alone)))]
        tasks.append(tuple(words))
    return tasks


__all__ = ["HEADER_WORDS", "generation_words", "record_tasks", "record_words"]
