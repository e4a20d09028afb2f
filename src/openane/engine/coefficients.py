"""What a neural-engine operation reads besides its source: weights, biases and a table, and where each of them lies.

Every core of the engine is fed by streams of bytes. A `CoefficientSection` says from which slot a part comes and which
bytes each core reads; parts that lie in the same streams name the same section. How halfwords are arranged inside a
stream is a fact of the generation: `chips.coefficients` states it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, overload

from openane.engine.changing import with_fields
from openane.record_classes import dataclass


class Packing(StrEnum):
    """How the halfwords of a stream stand for weights."""

    DENSE = "dense"
    SPARSE = "sparse"    # zero-skipping: per group of lanes a mask byte and the nonzero halfwords
    PALETTE = "palette"  # indices into a table of values


class CoefficientStream(NamedTuple):
    """The bytes one core reads: `size` bytes from `offset` relative to the section's slot."""

    core: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Streams(Sequence[CoefficientStream]):
    """Streams that lie as `parts` do, `offset` bytes further: what tasks share that read one piece after another. Equal
    to other streams of the same places."""

    parts: tuple[CoefficientStream, ...]
    offset: int = 0

    @staticmethod
    def of(streams: Sequence[CoefficientStream]) -> Streams:
        """Any streams as such."""
        return streams if isinstance(streams, Streams) else Streams(tuple(streams))

    @property
    def end(self) -> int:
        """One past the last byte; 1 where there are none."""
        return self.offset + _bounds(self.parts)[1] if self.parts else 1

    @property
    def start(self) -> int:
        """The first byte; 0 where there are none."""
        return self.offset + _bounds(self.parts)[0] if self.parts else 0

    @property
    def total(self) -> int:
        """Bytes of all streams together."""
        return sum([size for _, _, size in self.parts])

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, index: int) -> CoefficientStream: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[CoefficientStream, ...]: ...

    def __getitem__(self, index: int | slice) -> CoefficientStream | tuple[CoefficientStream, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        core, offset, size = self.parts[index]
        return CoefficientStream(core, self.offset + offset, size)

    def __iter__(self) -> Iterator[CoefficientStream]:
        base = self.offset
        return iter([CoefficientStream(core, base + offset, size) for core, offset, size in self.parts])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Streams):
            return NotImplemented
        if self.parts == other.parts:
            return self.offset == other.offset or not self.parts
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((len(self.parts), self[0] if self.parts else None))

    def __repr__(self) -> str:
        return repr(tuple(self))


@lru_cache(maxsize=1 << 10)
def _bounds(parts: tuple[CoefficientStream, ...]) -> tuple[int, int]:
    """The first byte of streams and one past the last."""
    return min([offset for _, offset, _ in parts]), max([offset + size for _, offset, size in parts])


@dataclass(frozen=True, slots=True)
class CoefficientSection:
    """Where parts of an operation's coefficients lie: the slot, and the stream of each core that reads them."""

    slot: int
    streams: Streams

    @staticmethod
    def of(slot: int, streams: Sequence[CoefficientStream]) -> CoefficientSection:
        """A section of any streams."""
        return CoefficientSection(slot, Streams.of(streams))

    def relocated(self, slot: int, offset: int) -> CoefficientSection:
        """The same `offset` bytes further, relative to `slot`."""
        return CoefficientSection(slot, Streams(self.streams.parts, self.streams.offset + offset))


PARTS = "weights", "bias", "table"
"""What coefficients may be of."""


class _RememberedParts:
    """What coefficients compute once; no part of what they are."""

    __slots__ = ("_sections", "_slots")
    _sections: tuple[CoefficientSection, ...]
    _slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients(_RememberedParts):
    """What a task reads beside its source, part by part: None where it has no such part.

    `lanes` are the output channels a core computes at once, `packing` how weights are stored (`palette_bits` wide
    indices where that is a palette), `runtime` whether an earlier task made them.
    """

    weights: CoefficientSection | None = None
    bias: CoefficientSection | None = None
    table: CoefficientSection | None = None
    lanes: int = 1
    packing: Packing = Packing.DENSE
    palette_bits: int = 0
    runtime: bool = False

    @staticmethod
    def together(section: CoefficientSection, *, weights: bool = True, bias: bool = False, table: bool = False,
                 lanes: int = 1,
                 packing: Packing = Packing.DENSE, palette_bits: int = 0, runtime: bool = False) -> Coefficients:
        """Parts that lie in the same streams."""
        return Coefficients(weights=section if weights else None, bias=section if bias else None,
                            table=section if table else None, lanes=lanes, packing=packing, palette_bits=palette_bits,
                            runtime=runtime)

    @property
    def sections(self) -> tuple[CoefficientSection, ...]:
        """Every section once: weights', biases', the table's."""
        try:
            return self._sections
        except AttributeError:
            parts = [part for part in (self.weights, self.bias, self.table) if part is not None]
            found = parts[:1] if len(set(map(id, parts))) < 2 else dict.fromkeys(parts)  # one is nearly always all
            object.__setattr__(self, "_sections", tuple(found))
            return self._sections

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots its sections lie in, each once."""
        try:
            return self._slots
        except AttributeError:
            sections = self.sections
            object.__setattr__(self, "_slots", (sections[0].slot,) if len(sections) == 1 else
                               tuple(dict.fromkeys([section.slot for section in sections])))
            return self._slots

    @property
    def size(self) -> int:
        """Bytes of all streams."""
        return sum([section.streams.total for section in self.sections])

    def relocated(self, move: Callable[[CoefficientSection], CoefficientSection]) -> Coefficients:
        """The same with every section where `move` puts it."""
        if len(self.sections) == 1:
            only = move(self.sections[0])
            return with_fields(self, {name: only for name in PARTS if getattr(self, name) is not None})
        known = {section: move(section) for section in self.sections}
        return with_fields(self, {name: known[part] for name in PARTS if (part := getattr(self, name)) is not None})

    def __str__(self) -> str:
        return " and ".join(self._described(section) for section in self.sections)

    def _described(self, section: CoefficientSection) -> str:
        parts = [name for name in ("weights", "bias", "table") if getattr(self, name) == section]
        parts += ["runtime"] if self.runtime else []
        return (f"slot{section.slot}+0x{section.streams.start:x}[{'+'.join(parts)}, {len(section.streams)} cores, "
                f"{section.streams.total} bytes, {self.lanes} lanes, {self.packing}]")
