"""One field of a register: where its bits are, and how the stored number relates to the value people use.

    stored = (value - minus) >> shift

A field of kind `uint`, `int` (two's complement), `enum` (named numbers), `fp16` or `fp32` (IEEE bit patterns).
`shift` is for quantities stored in units (bytes in units of 64: shift 6), `minus` for counts stored less one,
`align` for values stored whole whose low bits must be zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from openane.errors import ProgramError
from openane.record_classes import dataclass

Value = int | float | str


class Evidence(StrEnum):
    """How a fact about the hardware is known."""

    PROVED = "proved"      # Apple-made programs compute the right thing only if this holds
    SEEN = "seen"          # read in compiled programs or register maps; meaning agrees with every sample
    INFERRED = "inferred"  # concluded from neighbours or later generations; no sample


class FieldError(ProgramError):
    """A value that a field cannot hold, or a table that is not one."""


@dataclass(frozen=True, slots=True)
class Field:
    """Bits `low + width - 1 .. low` of a register. `values` names the numbers of an enum."""

    name: str
    low: int
    width: int
    kind: str = "uint"
    minus: int = 0
    shift: int = 0
    align: int = 1
    values: Mapping[str, int] = field(default_factory=dict, hash=False)
    default: Value | None = None
    evidence: Evidence = Evidence.SEEN
    doc: str = ""

    @property
    def mask(self) -> int:
        """The bits of the register this field occupies."""
        return ((1 << self.width) - 1) << self.low

    @property
    def bits(self) -> str:
        """Position as people write it: `[20:4]` or `[3]`."""
        high = self.low + self.width - 1
        return f"[{high}:{self.low}]" if self.width > 1 else f"[{self.low}]"

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value an integer field can hold."""
        low, high = 0, (1 << self.width) - 1
        if self.kind == "int":
            low, high = -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return (low << self.shift) + self.minus, (high << self.shift) + self.minus

    def encode(self, value: Value, where: str = "") -> int:
        """The register bits for `value`, in place. Raises FieldError when it does not fit."""
        name = f"{where}.{self.name}" if where else self.name
        return (self._raw(value, name) & ((1 << self.width) - 1)) << self.low

    def encoder(self, where: str = "") -> Callable[[int], int]:
        """What `encode` does for whole numbers, made once for many of them."""
        if self.kind not in ("uint", "int"):
            return lambda value: self.encode(value, where)
        (low, high), mask, unit = self.range, (1 << self.width) - 1, (1 << self.shift) - 1
        minus, shift, align, place = self.minus, self.shift, self.align, self.low

        def encode(value: int) -> int:
            if value.__class__ is int and low <= value <= high and not (value - minus) & unit and not value % align:
                return ((value - minus) >> shift & mask) << place
            return self.encode(value, where)

        return encode

    @property
    def unconditional(self) -> bool:
        """Whether every value of its bits is a whole number, not below `minus`."""
        return self.kind == "uint" and self.align == 1

    def decode(self, word: int) -> Value | None:
        """The value in `word`; None when the bits have no described meaning (they belong to `rest`)."""
        raw = (word >> self.low) & ((1 << self.width) - 1)
        if self.kind == "enum":
            return next((name for name, number in self.values.items() if number == raw), None)
        if self.kind in ("fp16", "fp32"):
            return _to_float(raw, self.kind)
        if self.kind == "int" and raw >> (self.width - 1):
            raw -= 1 << self.width
        value = (raw << self.shift) + self.minus
        return value if value % self.align == 0 else None

    def default_value(self) -> Value:
        """What a printer may leave out: the stated default, or the value of zero bits."""
        if self.default is not None:
            return self.default
        zero = self.decode(0)
        return 0 if zero is None else zero

    def _raw(self, value: Value, name: str) -> int:
        if self.kind == "enum":
            if not isinstance(value, str) or value not in self.values:
                known = ", ".join(self.values)
                raise FieldError(f"must be one of {known}, not {value!r}", field=name)
            return self.values[value]
        if self.kind in ("fp16", "fp32"):
            return _from_float(value, self.kind, name)
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, int):
            raise FieldError(f"must be an integer, not {value!r}", field=name)
        if (value - self.minus) % (1 << self.shift) or value % self.align:
            unit = max(1 << self.shift, self.align)
            raise FieldError(f"must be a multiple of {unit}, not {value:#x}", field=name)
        low, high = self.range
        if not low <= value <= high:
            raise FieldError(f"{value} is outside {low}..{high} ({self.width} bits at {self.low})", field=name)
        return (value - self.minus) >> self.shift


def _to_float(raw: int, kind: str) -> float | None:
    code, canonical = ("e", 0x7E00) if kind == "fp16" else ("f", 0x7FC00000)
    value: float = struct.unpack("<" + code, raw.to_bytes(2 if kind == "fp16" else 4, "little"))[0]
    if value != value and raw != canonical:
        return None  # a NaN's payload would be lost: leave the bits in `rest`
    return value


def _from_float(value: Value, kind: str, name: str) -> int:
    if isinstance(value, str):
        raise FieldError(f"must be a number, not {value!r}", field=name)
    code, canonical = ("e", 0x7E00) if kind == "fp16" else ("f", 0x7FC00000)
    if value != value:
        return canonical
    try:
        packed = struct.pack("<" + code, value)
        exact: float = struct.unpack("<" + code, packed)[0]
    except (OverflowError, struct.error):
        exact = float("nan")
    if exact != value:
        raise FieldError(f"{value!r} is not exactly representable as {kind}", field=name)
    return int.from_bytes(packed, "little")
