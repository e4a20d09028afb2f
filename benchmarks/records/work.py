"""Modelled work of a program: what its decoded operations move, not how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openane.chips import Chip
from openane.engine import Access, NeuralOperation, Operation, Space, sources
from openane.errors import ProgramError

from .reading import Words


@dataclass(frozen=True)
class Work:
    """Tasks, bytes of rows that tile DMA reads and writes (whole bursts), bytes of coefficient streams."""

    tasks: int
    moved: int
    kernels: int


def work(tasks: Sequence[Words], chip: Chip) -> Work | None:
    """The work of a program's tasks; None when one of them is not described."""
    try:
        operations = [chip.operation(words) for words in tasks]
    except ProgramError:
        return None
    moved = sum(_moved(access, chip.limits.burst) for o in operations for access in (*sources(o), o.result))
    return Work(len(operations), moved, sum(_kernels(o) for o in operations))


def _moved(access: Access, burst: int) -> int:
    """Bytes a memory operand moves: rows in whole bursts; what is broadcast inside a group comes in once."""
    if access.space is not Space.MEMORY:
        return 0
    n, c, d, h, w = access.shape
    _, sc, sd, sh, sw = access.strides
    element = access.dtype.size * access.interleave
    blocks = -(-c // access.interleave)
    if blocks > 1 and sc == access.dtype.size:  # channels and width swapped
        blocks, w, sc, sw = w, blocks, sw, element
    counts = [extent if stride or extent == 1 else 1 for extent, stride in ((blocks, sc), (d, sd), (h, sh), (w, sw))]
    row = -(-counts[3] * element // burst) * burst
    return n * counts[0] * counts[1] * counts[2] * row


def _kernels(operation: Operation) -> int:
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    return 0 if coefficients is None else coefficients.size
