"""The parts of a task's fields: of its header, of the heads of its runs, of its registers."""

from __future__ import annotations

from functools import lru_cache

from openane.record_classes import dataclass
from openane.registers import Fields


@dataclass(frozen=True, slots=True)
class TaskPart:
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


@lru_cache(maxsize=1 << 14)
def part_of(name: str) -> int:
    """Which part a field or register belongs to: 0 header, 1 heads of runs, 2 registers."""
    return 0 if name.startswith("Header.") else 1 if name.startswith(("Runs.", "Slots.")) else 2
