"""The parts of a task's fields: of its header, of the heads of its runs, of its registers; and fields remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from openane.registers import Fields

MOST_PLACES = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """Values and rest of one part of a task: its header, the heads of its runs, or its registers."""

    values: Fields
    rest: dict[str, int]

    def registers(self) -> dict[str, Fields]:
        """Fields by register; registers of which only undescribed bits are known have none."""
        table: dict[str, Fields] = {name: {} for name in self.rest}
        for name, value in self.values.items():
            register, _, field_name = name.rpartition(".")
            table.setdefault(register, {})[field_name] = value
        return table


class Remembered(dict[tuple[str, Any], tuple[str, int]]):
    """What `find` says of a name and a value, remembered up to a bound: the tasks of a program repeat most of their
    fields. Not for floats, of which equal ones may differ: they come as text."""

    def __init__(self, find: Callable[[str, Any], tuple[str, int]]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, item: tuple[str, Any]) -> tuple[str, int]:
        found = self._find(*item)
        if len(self) >= MOST_PLACES:
            self.clear()
        self[item] = found
        return found


@lru_cache(maxsize=1 << 14)
def part_of(name: str) -> int:
    """Which part a field or register belongs to: 0 header, 1 heads of runs, 2 registers."""
    return 0 if name.startswith("Header.") else 1 if name.startswith(("Runs.", "Slots.")) else 2
