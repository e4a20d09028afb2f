"""What loops are before they are machine code: Python that numba compiles, and the types it is compiled for.

Describing them imports nothing; `machine` brings the machine code of some loops.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from openane.record_classes import dataclass

ENTRY = "entry_{}"
"""What the function of a loop is called in the machine code of several, by its number."""
SEQUENCE = "sequence"
"""What the function that calls many of them is called."""
NEEDED = "compiled loops need numba: pip install 'openane[fast]'"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A function that loops call. `contract`: a product and a sum may be one instruction, which rounds once."""

    function: Callable[..., Any]
    contract: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TaskLoop:
    """A function for arguments of the types it `takes`, as numba spells them; a tuple of n numbers is `type*n`. What it
    `gives` are numbers: none, one, or a tuple of them, of integers and truth values, which are given as 0 and 1."""

    function: Callable[..., Any]
    takes: tuple[str, ...]
    gives: tuple[str, ...] = ()
    contract: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.function.__name__.strip("_")

    @property
    def passed(self) -> tuple[str, ...]:
        """The types of what is passed one by one: tuples as their numbers."""
        parts = (each.partition("*") for each in self.takes)
        return tuple(kind for kind, _, many in parts for _ in range(int(many or 1)))


@dataclass(frozen=True, slots=True, eq=False)
class ByType:
    """What loops call for a float32, and for a float64."""

    single: Any
    double: Any


@dataclass(frozen=True, slots=True, eq=False)
class ByProcessor:
    """What loops call on a processor that converts between fp16 and float32 by itself, and on others."""

    converting: Any
    plain: Any


class Primitive(StrEnum):
    """What loops call that is no Python: the float32 behind an fp16 word (int32), and the word of a float32, ties to
    even, by the processor; an array of `count` elements, or of `rows` and `columns`, of the type of a number, whose
    elements are anything, and giving it back, which must be done; eight words each of eight lanes, or of four, put into
    bytes side by side, one of each lane, and the next ones elsewhere."""

    WIDENED = "widened"
    NARROWED = "narrowed"
    ROOM = "room"
    ROWS = "rows"
    GIVEN_BACK = "given_back"
    TURNED = "turned"
    FOUR_TURNED = "four_turned"


DESCRIBED = (Part, TaskLoop, ByType, ByProcessor, Primitive)
widened: Any = Primitive.WIDENED
narrowed: Any = Primitive.NARROWED
room: Any = Primitive.ROOM
rows_of: Any = Primitive.ROWS
give_back: Any = Primitive.GIVEN_BACK
turned: Any = Primitive.TURNED
four_turned: Any = Primitive.FOUR_TURNED


def part(function: Callable[..., Any]) -> Any:
    """A function that other loops call."""
    return Part(function)


def contracted(function: Callable[..., Any]) -> Any:
    """The same, with `contract`."""
    return Part(function, contract=True)
