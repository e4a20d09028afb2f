"""Memory of the simulated engine: buffers behind slots, the L2 scratchpad, and strided views of them.

Addresses do not depend on data, so every access is checked against the size of its memory once, when a program is
loaded; running a program does no checks at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.engine import Access, DType, Space
from openane.engine.access import CHANNELS
from openane.errors import SimulationError
from openane.program import Buffer, ByteRange, Constants

MEMORY_LIMIT = 1 << 32
"""Bytes all buffers of a program may take together on this machine, whatever the engine's addresses reach."""

ELEMENT: dict[DType, np.dtype[Any]] = {
    DType.FLOAT16: np.dtype("<u2"), DType.INT8: np.dtype("i1"), DType.UINT8: np.dtype("u1"),
}
"""How elements are held: fp16 as its bits."""


class OperandArray:
    """One access as a five-dimensional array of raw elements, N, C, D, H, W.

    `array` is a view of memory where strides can say it. Otherwise (channels in blocks, or a source that overlaps
    what its own task writes) it is an array of its own that `load` fills and `store` writes back.
    """

    __slots__ = ("_blocks", "_packed", "array", "copies")

    def __init__(self, array: np.ndarray, blocks: np.ndarray | None = None, packed: int = CHANNELS) -> None:
        self.array, self._blocks, self._packed = array, blocks, packed
        self.copies: list[OperandArray] = []

    @property
    def apart(self) -> bool:
        """Whether `load` and `store` do anything."""
        return self._blocks is not None or bool(self.copies)

    def load(self) -> None:
        """Brings the elements from memory and keeps the copies an access asks for."""
        if self._blocks is not None:
            rows = self.array.swapaxes(CHANNELS, self._packed)
            np.copyto(rows, _channels(self._blocks, rows.shape))
        self._spread()

    def store(self) -> None:
        """Writes the elements to memory and to the copies."""
        if self._blocks is not None:
            _scatter(self.array.swapaxes(CHANNELS, self._packed), self._blocks)
        self._spread()

    def _spread(self) -> None:
        for copy in self.copies:
            copy.array[...] = self.array[tuple(slice(extent) for extent in copy.array.shape)]
            copy.store()

    def detach(self) -> None:
        """Reads through an array of its own from now on."""
        if self._blocks is None:
            self._blocks = self.array[:, :, None]
            self.array = np.empty(self.array.shape, self.array.dtype)


class Memory:
    """Buffers by slot, constants, text and L2 of one loaded program."""

    def __init__(self, buffers: Sequence[Buffer], limits: Limits, constants: Constants = b"", text: bytes = b"",
                 l2_reach: int | None = None, ranges: Mapping[int, ByteRange] | None = None) -> None:
        """Of the bytes of L2 the first `l2_reach` are held; `ranges` are the bytes of the constants behind each slot
        that has some (None: all behind the constants' own). SimulationError when the buffers together exceed
        `MEMORY_LIMIT`."""
        total = sum(max(buffer.size, 0) for buffer in buffers)
        if total > MEMORY_LIMIT or any(buffer.size < 0 for buffer in buffers):
            raise SimulationError(f"the buffers of the program take {total} bytes; the simulator holds programs of "
                                  f"up to {MEMORY_LIMIT} bytes")
        slots = limits.slots
        self.ranges = {slots.constants: (0, len(constants))} if ranges is None else dict(ranges)
        self._read_only = {slot: "the constants" if slot == slots.constants else "a kernel section"
                           for slot in self.ranges} | {slots.text: "the program text"}
        self.names = {buffer.slot: buffer.name for buffer in buffers} | self._read_only
        self.buffers: dict[str, np.ndarray] = {}
        self._slots: dict[int, np.ndarray] = {slots.text: np.frombuffer(text, np.uint8)}
        self._hold(np.frombuffer(constants, np.uint8))
        for buffer in buffers:
            self.buffers[buffer.name] = self._slots[buffer.slot] = np.zeros(buffer.size, np.uint8)
        self._l2_size = limits.l2_size
        self.l2 = np.zeros(limits.l2_size if l2_reach is None else min(limits.l2_size, l2_reach), np.uint8)

    def bind(self, name: str, store: np.ndarray) -> None:
        """Puts other bytes (uint8, contiguous) behind a buffer. SimulationError when they are too few."""
        if name not in self.buffers:
            raise SimulationError(f"no buffer is called {name!r}; there are {', '.join(self.buffers)}")
        if store.dtype != np.uint8 or store.ndim != 1 or not store.flags.c_contiguous:
            raise SimulationError(f"buffer {name!r} needs a contiguous one-dimensional uint8 array, "
                                  f"not {store.dtype} {list(store.shape)}")
        if store.size < self.buffers[name].size:
            raise SimulationError(f"buffer {name!r} needs {self.buffers[name].size} bytes, not {store.size}")
        slot = next(slot for slot, known in self.names.items() if known == name and slot not in self._read_only)
        self.buffers[name] = self._slots[slot] = store

    @property
    def constant_size(self) -> int:
        """Bytes of the constants."""
        return self._constants.size

    @property
    def constants(self) -> np.ndarray:
        """Bytes of the constants, to be written: from the first time this is asked for they are a copy of those the
        memory was made with."""
        if not self._constants.flags.owndata:
            self._hold(self._constants.copy())
        return self._constants

    def _hold(self, constants: np.ndarray) -> None:
        """Puts the constants behind their slots."""
        self._constants = constants
        self._slots |= {slot: constants[low:high] for slot, (low, high) in self.ranges.items()}

    @property
    def total_size(self) -> int:
        """Bytes of all buffers, constants and L2: no intermediate a program needs is larger."""
        return sum(store.size for store in self._slots.values()) + self._l2_size

    def bytes_of(self, slot: int, what: str) -> np.ndarray:
        """The bytes behind a slot. SimulationError names `what` needs it when nothing is bound there."""
        if slot not in self._slots:
            bound = ", ".join(f"{s} ({self.names[s]})" for s in sorted(self._slots))
            raise SimulationError(f"{what} uses slot {slot}, where no buffer is bound; bound are slots {bound}")
        return self._slots[slot]

    def operand(self, access: Access, what: str, *, writes: bool) -> OperandArray:
        """A checked view of a memory or L2 access. `what` names task and operand in errors."""
        if access.space is Space.CHAIN:
            raise SimulationError(f"{what} is handed over between tasks and has no address")
        if access.space is Space.MEMORY and writes and access.slot in self._read_only:
            raise SimulationError(f"{what} writes to slot {access.slot}, {self._read_only[access.slot]}; "
                                  "a result needs a buffer of its own")
        store = self.l2 if access.space is Space.L2 else self.bytes_of(access.slot, what)
        place = "L2" if access.space is Space.L2 else f"slot {access.slot} ({self.names[access.slot]})"
        low, high = access.span
        size = self._l2_size if access.space is Space.L2 else store.size
        if low < 0 or high > size:
            raise SimulationError(f"{what} touches bytes {low:#x} to {high:#x} of {place}, which has {size:#x} "
                                  f"bytes: {access}")
        if access.elements > self.total_size:
            raise SimulationError(f"{what} visits {access.elements} elements, more than all memory of the program has "
                                  f"bytes: {access}")
        operand = view(access, store)
        if access.copy is not None:
            operand.copies.append(self.operand(access.copy, f"{what} (copy)", writes=True))
            _require_shape(access.copy, access.shape, what)
        return operand

    def fill(self, contents: Mapping[str, np.ndarray | bytes]) -> None:
        """Copies bytes into named buffers, from their start. SimulationError on unknown names or too many bytes."""
        for name, data in contents.items():
            if name not in self.buffers:
                raise SimulationError(f"no buffer is called {name!r}; there are {', '.join(self.buffers)}")
            source = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
            target = self.buffers[name]
            if source.size > target.size:
                raise SimulationError(f"buffer {name!r} has {target.size} bytes, not {source.size}")
            target[:source.size] = source


def overlapping(first: Access, second: Access) -> bool:
    """Whether a task that reads `first` while it writes `second` could read what it wrote."""
    if first.space is not second.space or first.space is Space.CHAIN:
        return False
    if first.space is Space.MEMORY and first.slot != second.slot:
        return False
    same = (first.offset, first.shape, first.strides, first.dtype, first.interleave, first.packed)
    if same == (second.offset, second.shape, second.strides, second.dtype, second.interleave, second.packed):
        return False
    (low, high), (other_low, other_high) = first.span, second.span
    return low < other_high and other_low < high


def _require_shape(access: Access, shape: tuple[int, ...], what: str) -> None:
    if any(mine not in (1, extent) for mine, extent in zip(access.shape, shape, strict=True)):
        raise SimulationError(f"{what} has the shape {shape}, its copy {access.shape}: they must agree, or the copy "
                              "have extent 1 where the operand is broadcast")


def view(access: Access, store: np.ndarray) -> OperandArray:
    """The elements of an access in `store` (uint8), whose bounds the caller has proved."""
    dtype = ELEMENT[access.dtype]
    lanes, packed = access.interleave, access.packed
    if lanes == 1 or access.shape[packed] <= lanes:
        own = list(access.strides)
        own[packed] = own[packed] if lanes == 1 else dtype.itemsize
        return OperandArray(_strided(access.shape, dtype, store, access.offset, tuple(own)))
    extents, strides = list(access.blocks), list(access.strides)
    for walked in (extents, strides):
        walked[CHANNELS], walked[packed] = walked[packed], walked[CHANNELS]
    n, c, *rest = extents
    blocks = _strided((n, c, lanes, *rest), dtype, store, access.offset,
                      (strides[0], strides[1], dtype.itemsize, *strides[2:]))
    return OperandArray(np.zeros(access.shape, dtype), blocks, packed)


def _strided(shape: tuple[int, ...], dtype: np.dtype[Any], store: np.ndarray, offset: int,
             strides: tuple[int, ...]) -> np.ndarray:
    """A view whose bounds numpy checks again."""
    return np.ndarray(shape, dtype, buffer=store.data, offset=offset, strides=strides)


def _channels(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """[N, blocks, lanes, D, H, W] as [N, C, D, H, W]."""
    n, count, lanes, *rest = blocks.shape
    return blocks.reshape(n, count * lanes, *rest)[:, :shape[1]]


def _scatter(array: np.ndarray, blocks: np.ndarray) -> None:
    lanes = blocks.shape[2]
    for lane in range(lanes):
        part = array[:, lane::lanes]
        blocks[:, :part.shape[1], lane] = part
