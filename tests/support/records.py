"""Reads the records of Apple's compiler: JSON documents that hold every register word of every task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from records.reading import framed_words as generation_words
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


__all__ = ["HEADER_WORDS", "generation_words", "record_tasks", "record_words"]
