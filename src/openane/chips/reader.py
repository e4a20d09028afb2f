"""What a decoder asks of a task's fields: values by their H13 names, slots, coefficient streams.

`Reader` answers as H13 states things; later generations override what they state elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from openane.chips.chip import TaskFields
from openane.chips.limits import Limits
from openane.engine import CoefficientSection, CoefficientStream
from openane.errors import ProgramError
from openane.registers import Bank, Field, FieldError

STREAMED = ("keep", "stream")


class Reader:
    """Field values with the engine's presets: an H13 register that the task does not write holds zero."""

    names: ClassVar[Mapping[str, str]] = {}
    """H13's name to this generation's, where they differ."""

    def __init__(self, fields: TaskFields, header: Bank, body: Bank, limits: Limits) -> None:
        self.limits = limits
        self._values, self._rest = fields.values, fields.rest
        self._header, self._body = header, body

    def get(self, name: str) -> Any:
        """A field's value; ProgramError when its bits have no described meaning."""
        name = self.names.get(name, name)
        if name in self._values:
            return self._values[name]
        register, _, field = name.rpartition(".")
        if register in self._rest:
            raise ProgramError(f"bits 0x{self._rest[register]:x} have no described meaning", register=register,
                               field=field)
        try:
            described = (self._header if register.startswith("Header.") else self._body).locate(name)[2]
        except FieldError:
            raise ProgramError("the generation has no such field that is described", register=register,
                               field=field) from None
        return self.preset(described)

    def preset(self, field: Field) -> Any:
        """What a field of a register holds that the task does not write."""
        unwritten = field.decode(0)
        return 0 if unwritten is None else unwritten

    def refuse_unless(self, name: str, *allowed: object) -> None:
        """ProgramError unless the field has one of the values whose meaning is known here."""
        value = self.get(name)
        if value not in allowed:
            raise ProgramError(f"{value!r} is not described for this kind of task", field=name)

    def slot(self, name: str) -> int | None:
        """The base-address slot called `name` (RBase0, RBase1, WBase, KBase0), enabled or not."""
        return int(self.get(f"Header.{'KernelBases' if name == 'KBase0' else 'Bases'}.{name}"))

    def enabled_slot(self, name: str) -> int | None:
        """The base-address slot called `name`; None when it is not enabled."""
        enabled = self.get(f"Header.{'KernelBases' if name == 'KBase0' else 'Bases'}.{name}En")
        return self.slot(name) if enabled else None

    def kernel_slots(self) -> set[int | None]:
        """Slots the task takes coefficients from."""
        return {self.enabled_slot("KBase0")}

    def second_from_memory(self) -> bool:
        """Whether the second operand comes from memory."""
        return bool(self.get("L2.SourceCfg.SecondDMA"))

    def offset(self, name: str) -> int:
        """A memory address relative to its slot, in bytes."""
        return int(self.get(f"{name}.Addr"))

    def streams(self) -> tuple[CoefficientStream, ...]:
        """The coefficient streams of the cores that have one."""
        return tuple(CoefficientStream(core, int(self.get(f"KernelDMA.CoeffBaseAddr[{core}].Addr")),
                                       int(self.get(f"KernelDMA.CoeffBfrSize[{core}].Size")))
                     for core in range(self.limits.cores) if self.get(f"KernelDMA.CoeffDMAConfig[{core}].En"))

    def sections(self) -> tuple[CoefficientSection | None, CoefficientSection | None]:
        """Where weights and biases lie, and where a table does: here at the head of the same streams. ProgramError when
        they are read through a slot that is not enabled."""
        streams = self.streams()
        if not streams:
            return None, None
        section = CoefficientSection.of(self.required_slot("KBase0"), streams)
        return section, section

    def required_slot(self, name: str) -> int:
        """The base-address slot called `name`. ProgramError when it is not enabled."""
        slot = self.enabled_slot(name)
        if slot is None:
            raise ProgramError("memory is accessed through a slot that is not enabled", register="Header.Bases",
                               field=name)
        return slot

    def runtime_kernel(self) -> bool:
        """Whether the coefficients are another operation's result."""
        return bool(self.get("NE.KernelCfg.RuntimeKernel"))
