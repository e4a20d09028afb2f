"""Programs to write and read back: drawn at random, and one small one."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from support.h13 import layout_of

from openane.chips import get_chip
from openane.engine import Access, Binary, DType, Elementwise, Operation
from openane.program import Buffer, Layout, Program, Role, Task

SHAPE = (1, 4, 1, 2, 5)
SURFACE = layout_of(SHAPE)


def emitted(operations: list[Operation], layout: str = "macos26") -> tuple[Task, ...]:
    """The tasks of a chain of operations."""
    return tuple(Task(e.words, e.offset) for e in get_chip("h13").emit(operations, layout))


def elementwise(function: Binary, first: int, second: int, result: int) -> Elementwise:
    """An operation on whole small surfaces in three slots."""
    first_access, second_access, result_access = (
        Access(slot=slot, shape=SHAPE, strides=SURFACE.strides) for slot in (first, second, result))
    return Elementwise(first=first_access, second=second_access, result=result_access, function=function)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout: up to five axes, padded strides, every element type, channels interleaved or not."""
    n, c, d, h, w = (draw(st.integers(1, most)) for most in (3, 9, 3, 5, 40))
    dtype = draw(st.sampled_from(list(DType)))
    interleave = draw(st.sampled_from((1, 1, 1, 2, 4)))
    element = dtype.size * interleave
    row = w * element + draw(st.sampled_from((0, 6, 64)))
    plane = row * h + draw(st.sampled_from((0, 64)))
    depth = plane * -(-c // interleave)
    return Layout((n, c, d, h, w), (depth * d + draw(st.sampled_from((0, 128))), plane, depth, row, element), dtype,
                  interleave)


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    """A chain of elementwise tasks over buffers of every role, with arbitrary names, layouts and constants."""
    slots = draw(st.lists(st.integers(2, 31), min_size=3, max_size=8, unique=True))
    names = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1,
                                  max_size=20), min_size=len(slots), max_size=len(slots), unique=True))
    functions = st.sampled_from((Binary.ADD, Binary.MULTIPLY, Binary.MAXIMUM))
    steps = draw(st.lists(st.tuples(functions, *[st.sampled_from(slots)] * 3), min_size=1, max_size=4))
    buffers = []
    for slot, name in zip(slots, names, strict=True):
        layout = draw(st.none() | layouts())
        size = draw(st.integers(1, 0x9000)) + (max(layout.size, _dense(layout)) if layout else 0)
        buffers.append(Buffer(name, slot, draw(st.sampled_from(list(Role))), size, layout))
    tasks = emitted([elementwise(*step) for step in steps], draw(st.sampled_from(("macos26", "compat"))))
    return Program("h13", tasks, draw(st.binary(max_size=300)), tuple(buffers), draw(st.sampled_from(("net", "main"))))


def _dense(layout: Layout) -> int:
    n, c, d, h, w = layout.shape
    return n * c * d * h * w * layout.dtype.size


def small_program() -> Program:
    """((a + b) * a), through a scratch buffer."""
    tasks = emitted([elementwise(Binary.ADD, 4, 5, 3), elementwise(Binary.MULTIPLY, 3, 4, 6)])
    buffers = (Buffer("scratch", 3, Role.SCRATCH, SURFACE.size), Buffer("a", 4, Role.INPUT, SURFACE.size, SURFACE),
               Buffer("b", 5, Role.INPUT, SURFACE.size, SURFACE), Buffer("y", 6, Role.OUTPUT, SURFACE.size, SURFACE))
    return Program("h13", tasks, b"", buffers, "net")


@pytest.fixture(scope="session")
def programs() -> st.SearchStrategy[Program]:
    """Strategy: any program the containers can hold."""
    return random_programs()


@pytest.fixture(scope="session")
def small() -> Program:
    """Two tasks, two inputs, scratch, one output."""
    return small_program()
