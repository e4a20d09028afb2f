"""Finds out which task of one program corresponds to which of another, so that as many tasks as possible stand beside
one that is alike."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from openane.chips import Chip
from openane.engine import Operation, Shape, sources
from openane.errors import ProgramError
from openane.program.model import Task
from openane.record_classes import dataclass

MOST_PAIRS = 1 << 20  # pairs scored one by one; larger programs are aligned by equal kinds and shapes first
SAME_WORDS, SAME_OPERATION, SAME_SHAPES, SAME_RESULT, SAME_KIND, ANY = 32, 24, 16, 12, 8, 1

Pair = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class AlignedTask:
    """A task, the operation it stands for (None: not described) and what alignment goes by."""

    task: Task
    operation: Operation | None
    kind: str
    shapes: tuple[Shape, ...]


def view(chip: Chip, task: Task) -> AlignedTask:
    """The view of a task."""
    try:
        operation = chip.operation(task.words)
    except ProgramError:
        return AlignedTask(task, None, "", ())
    shapes = (operation.result.shape, *(access.shape for access in sources(operation)))
    return AlignedTask(task, operation, type(operation).__name__, shapes)


def align(before: Sequence[AlignedTask], after: Sequence[AlignedTask]) -> list[Pair]:
    """Pairs of indices in order; None where a task has no counterpart."""
    start = 0
    while start < min(len(before), len(after)) and before[start].task.words == after[start].task.words:
        start += 1
    pairs: list[Pair] = [(i, i) for i in range(start)]
    rows, columns = before[start:], after[start:]
    middle = _scored(rows, columns) if len(rows) * len(columns) <= MOST_PAIRS else _by_keys(rows, columns)
    return pairs + [(None if a is None else a + start, None if b is None else b + start) for a, b in middle]


def _score(a: AlignedTask, b: AlignedTask) -> int:
    if a.task.words == b.task.words:
        return SAME_WORDS
    if a.kind != b.kind or a.operation is None:
        return ANY
    if a.operation == b.operation:
        return SAME_OPERATION
    if a.shapes == b.shapes:
        return SAME_SHAPES
    return SAME_RESULT if a.shapes[0] == b.shapes[0] else SAME_KIND


def _scored(before: Sequence[AlignedTask], after: Sequence[AlignedTask]) -> list[Pair]:
    """The alignment of highest total score (Needleman-Wunsch; a task without counterpart costs nothing)."""
    width = len(after) + 1
    best = [0] * (width * (len(before) + 1))
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            best[i * width + j] = max(best[(i + 1) * width + j + 1] + _score(before[i], after[j]),
                                      best[(i + 1) * width + j], best[i * width + j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < len(before) and j < len(after):
        here = best[i * width + j]
        if here == best[(i + 1) * width + j + 1] + _score(before[i], after[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif here == best[(i + 1) * width + j]:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs + [(k, None) for k in range(i, len(before))] + [(None, k) for k in range(j, len(after))]


def _by_keys(before: Sequence[AlignedTask], after: Sequence[AlignedTask]) -> list[Pair]:
    """Runs of tasks of equal kinds and shapes correspond; what lies between them is paired in order."""
    matcher = SequenceMatcher(None, [(v.kind, v.shapes) for v in before], [(v.kind, v.shapes) for v in after], False)
    pairs: list[Pair] = []
    for _, a, a_end, b, b_end in matcher.get_opcodes():
        both = min(a_end - a, b_end - b)
        pairs += [(a + k, b + k) for k in range(both)]
        pairs += [(k, None) for k in range(a + both, a_end)]
        pairs += [(None, k) for k in range(b + both, b_end)]
    return pairs
