"""Comparing tasks word by word and field by field, and the baselines that give such a figure a meaning.

A task's words are compared by what they are (header word, run head, register address), so that a missing run makes its
own words differ and no others. What only one side has counts as a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from openane.chips import Chip
from openane.errors import ProgramError

from .reading import Record, Words

Named = dict[str, int]


@dataclass(frozen=True)
class Difference:
    """One field of one task: its name, our value and Apple's (None where a side has no such field or task)."""

    task: int
    field: str
    ours: Any
    apples: Any


def named_words(words: Words, chip: Chip) -> Named:
    """The words of a task by what they are; a register that is written again has a name for each time. Words that form
    no task are numbered."""
    try:
        fields = chip.decode(words)
        addresses = iter(chip.addresses(fields))
    except ProgramError:
        return {f"word {number}": word for number, word in enumerate(words)}
    position = len(words) - sum(1 + count for _, count in fields.records)
    named = {f"header {number}": words[number] for number in range(position)}
    for base, count in fields.records:
        _add(named, f"run {base:#x}", words[position])
        for word in words[position + 1:position + 1 + count]:
            _add(named, f"register {next(addresses):#x}", word)
        position += 1 + count
    return named


def _add(named: Named, name: str, word: int) -> None:
    """Adds a word, under a name of its own where one is taken."""
    times = 1
    while (key := name if times == 1 else f"{name} ({times})") in named:
        times += 1
    named[key] = word


def equal_words(ours: Sequence[Named], apples: Sequence[Named]) -> tuple[int, int]:
    """(words that are the same, words of either side), task by task in order."""
    same = total = 0
    for mine, theirs in zip_longest(ours, apples, fillvalue={}):
        same += sum(mine.get(key) == word for key, word in theirs.items())
        total += len(mine.keys() | theirs.keys())
    return same, total


def differences(ours: Sequence[Words], apples: Sequence[Words], chip: Chip) -> Iterator[Difference]:
    """Every field that differs, task by task in order; a task only one side has is one difference."""
    for number, (mine, theirs) in enumerate(zip_longest(ours, apples)):
        if mine is None or theirs is None:
            yield Difference(number, "task", mine and operation_name(mine, chip),
                             theirs and operation_name(theirs, chip))
            continue
        left, right = chip.decode(mine).values, chip.decode(theirs).values
        for name in dict.fromkeys((*left, *right)):
            if left.get(name) != right.get(name):
                yield Difference(number, name, left.get(name), right.get(name))


def operation_name(words: Words, chip: Chip) -> str:
    """What a task does, in one word."""
    try:
        return type(chip.operation(words)).__name__
    except ProgramError:
        return "undescribed"


def functional_fields(ours: Sequence[Words], apples: Sequence[Words], chip: Chip) -> tuple[int, int]:
    """(equal, all) fields of the decoded operations: kind, operands, post stages, coefficients."""
    same = total = 0
    for mine, theirs in zip_longest(ours, apples):
        left, right = (_attributes(words, chip) for words in (mine, theirs))
        total += len(left.keys() | right.keys())
        same += sum(key in left and left[key] == value for key, value in right.items())
    return same, total


def _attributes(words: Words | None, chip: Chip) -> dict[str, Any]:
    if words is None:
        return {}
    try:
        operation = chip.operation(words)
    except ProgramError:
        return {"kind": words}
    return {"kind": type(operation), **{f.name: getattr(operation, f.name) for f in fields(operation)}}


class Baselines:
    """What words a compiler would get right that only had the other records to copy from."""

    def __init__(self, records: Sequence[Record], chip: Chip) -> None:
        self.named: Mapping[str, list[Named]] = {r.name: [named_words(words, chip) for words in r.tasks]
                                                 for r in records}
        self.counts: dict[str, Counter[int]] = {}
        for tasks in self.named.values():
            self._count(tasks, 1)

    def _count(self, tasks: Sequence[Named], step: int) -> None:
        for task in tasks:
            for key, word in task.items():
                self.counts.setdefault(key, Counter())[word] += step

    def nearest(self, record: Record) -> tuple[str, float]:
        """The other record whose words are the most alike, chosen knowing the answer, and how alike they are."""
        own = self.named[record.name]
        scores = [(same / total, name) for name, tasks in self.named.items() if name != record.name
                  for same, total in [equal_words(tasks, own)]]
        score, name = max(scores, default=(0.0, ""))
        return name, score

    def commonest(self, record: Record) -> float:
        """The fraction of words that are the most common one of their address in all other records."""
        own = self.named[record.name]
        self._count(own, -1)
        most = {key: max(counts, key=lambda word: counts[word], default=None) if +counts else None
                for key, counts in self.counts.items()}
        self._count(own, 1)
        words = [(key, word) for task in own for key, word in task.items()]
        return sum(most[key] == word for key, word in words) / max(1, len(words))
