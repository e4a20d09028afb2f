"""The tasks of a program as text, without the container they came in: see `openane.program.listing`.

`openane.formats.listing` has the whole file's text, which can be assembled again.
"""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import Chip, get_chip
from openane.program.listing import names_of, summary, task_lines
from openane.program.listing.lexer import comment
from openane.program.model import Buffer, Program, Task


def disassemble(program: Program) -> Iterator[str]:
    """Lines of the text form of `program`, without line ends. UnsupportedError when its chip is not described."""
    chip = get_chip(program.chip)
    yield from map(comment, _head(program))
    names = names_of(program)
    for index, task in enumerate(program.tasks):
        yield ""
        yield from task_lines(chip, index, task, names)


def disassemble_task(chip: Chip, index: int, task: Task) -> Iterator[str]:
    """Lines for one task. A descriptor that does not decode is shown as raw words with the reason."""
    return task_lines(chip, index, task)


def surface(buffer: Buffer) -> str:
    """Size, element type, extents and strides of a buffer in one line."""
    if buffer.layout is None:
        return f"{buffer.size} bytes"
    layout = buffer.layout
    text = (f"{buffer.size} bytes  {layout.dtype} {'x'.join(map(str, layout.shape))}"
            f"  strides {'/'.join(f'{stride:#x}' for stride in layout.strides)}")
    return text if layout.interleave == 1 else f"{text} interleave {layout.interleave}"


def _head(program: Program) -> Iterator[str]:
    yield f"program {program.name}"
    yield f"  chip       {program.chip}"
    for key, value in program.origin.items():
        yield f"  ; {key:<8} {value}"
    yield f"  constants  {program.kernel_starts[0] if program.kernel_starts else len(program.constants)} bytes"
    for slot, (start, end) in list(program.constant_ranges.items())[1:]:
        yield f"  kernels    {end - start} bytes  slot {slot}"
    width = max((len(b.name) for b in program.buffers), default=0)
    for buffer in program.buffers:
        yield f"  {buffer.role:<9}  {buffer.name:<{width}}  slot {buffer.slot:<2}  {surface(buffer)}"


__all__ = ["disassemble", "disassemble_task", "summary", "surface"]
