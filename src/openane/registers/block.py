"""Registers and blocks: words at byte addresses, made of fields.

A block has a base address and registers at byte offsets; a register may repeat (`count` words, `step` bytes
apart) and is then named `CoeffBaseAddr[3]`. Encoding starts from zero (or from `rest`, the bits no field
describes), so decode followed by encode gives the same word for every input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from openane.record_classes import dataclass
from openane.registers.field import Evidence, Field, FieldError, Value

Fields = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Register:
    """A 32-bit word of named fields at byte `offset` from its block."""

    name: str
    offset: int
    fields: tuple[Field, ...] = ()
    count: int = 1
    step: int = 4
    evidence: Evidence = Evidence.SEEN
    doc: str = ""

    @property
    def described(self) -> int:
        """Mask of the bits that some field describes."""
        mask = 0
        for f in self.fields:
            mask |= f.mask
        return mask

    def field(self, name: str) -> Field:
        """The field called `name`; FieldError lists the known ones."""
        for f in self.fields:
            if f.name == name:
                return f
        known = ", ".join(f.name for f in self.fields) or "none"
        raise FieldError(f"unknown field {name!r}; {self.name} has {known}", register=self.name)

    def encode(self, values: Mapping[str, Value], rest: int = 0) -> int:
        """The word for the given field values; fields not named are zero. `rest` is ORed in."""
        word = rest
        for name, value in values.items():
            word |= self.place(name, value, rest)
        return word

    def place(self, name: str, value: Value, rest: int = 0, where: str = "") -> int:
        """The bits of one field, in place. FieldError, calling the register `where`, when the value does not fit or
        `rest` has bits there."""
        known, where = self.field(name), where or self.name
        if rest & known.mask:
            raise FieldError(f"rest 0x{rest:x} overlaps the field", field=f"{where}.{name}")
        return known.encode(value, where)

    def decode(self, word: int) -> tuple[Fields, int]:
        """Field values of `word`, and `rest`: the bits no field describes."""
        values: Fields = {}
        rest = word & ~self.described
        for f in self.fields:
            value = f.decode(word)
            if value is None:
                rest |= word & f.mask
            else:
                values[f.name] = value
        return values, rest


@dataclass(frozen=True)
class Block:
    """Registers at a base byte address."""

    name: str
    base: int
    registers: tuple[Register, ...]
    doc: str = ""

    @cached_property
    def by_address(self) -> dict[int, tuple[str, Register]]:
        """Absolute byte address to (name within the block, register); arrays have one entry per word."""
        return {address: (name, register) for address, name, register in self.words()}

    @cached_property
    def by_name(self) -> dict[str, tuple[int, Register]]:
        """Name within the block (`Cfg`, `CoeffBaseAddr[3]`) to (absolute byte address, register)."""
        return {name: (address, register) for address, name, register in self.words()}

    def words(self) -> Iterator[tuple[int, str, Register]]:
        """Every word: absolute byte address, name within the block, register."""
        for register in self.registers:
            for index in range(register.count):
                name = register.name if register.count == 1 else f"{register.name}[{index}]"
                yield self.base + register.offset + index * register.step, name, register

    def register(self, name: str) -> Register:
        """The register called `name` (arrays without index); FieldError lists the known ones."""
        for register in self.registers:
            if register.name == name:
                return register
        raise FieldError(f"unknown register {name!r}; {self.name} has "
                         + ", ".join(r.name for r in self.registers), register=self.name)

    def patched(self, *registers: Register) -> Block:
        """This block with registers replaced or added by name: how a later generation states its differences."""
        table = {r.name: r for r in self.registers} | {r.name: r for r in registers}
        return replace(self, registers=tuple(sorted(table.values(), key=lambda r: r.offset)))
