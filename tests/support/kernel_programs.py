"""A small program of H16 whose weights lie in a kernel section, and the H13 program of the same operations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from openane.chips import get_chip
from openane.compiler import compile
from openane.engine import Access, CoefficientSection, Convolution
from openane.ops.build import GraphBuilder
from openane.program import Program, Task

CHIP = get_chip("h16")
BEFORE = bytes(range(128))
"""Constants beside the kernel section, which no task reads."""
WEIGHTS = (np.arange(32 * 16) % 13 - 6).reshape(32, 16, 1, 1).astype(np.float16)


@cache
def plain() -> Program:
    """Its H13 program: a convolution of x [1, 16, 4, 4] with `WEIGHTS`."""
    builder = GraphBuilder()
    y = builder.single("conv", "c", x=builder.input("x", "fp16", (1, 16, 4, 4)), weight=WEIGHTS)
    return compile(builder.finish({"y": y})).program


@cache
def apart() -> Program:
    """The program of H16: the same constants as a kernel section behind others."""
    before, slots = plain(), CHIP.limits.slots
    moved = {b.slot: slots.first_port + index for index, b in enumerate(before.buffers)}
    kernels = slots.first_kernels(moved.values())
    assert kernels is not None
    (task,) = before.tasks
    operation = get_chip(before.chip).operation(task.words)
    assert isinstance(operation, Convolution)
    assert operation.coefficients is not None

    def there(access: Access) -> Access:
        return replace(access, slot=moved[access.slot])

    held = operation.coefficients.relocated(lambda section: CoefficientSection(kernels, section.streams))
    emitted = CHIP.emit([replace(operation, source=there(operation.source), result=there(operation.result),
                                 coefficients=held)])
    tasks = tuple(Task(each.words, each.offset) for each in emitted)
    return Program(CHIP.name, tasks, BEFORE + before.constants,
                   tuple(replace(b, slot=moved[b.slot]) for b in before.buffers), kernel_starts=(len(BEFORE),))


__all__ = ["BEFORE", "CHIP", "WEIGHTS", "apart", "plain"]
