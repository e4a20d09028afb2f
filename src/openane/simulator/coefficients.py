"""Unpacks weights, biases and tables from coefficient streams.

`engine.coefficients` says where each coefficient lies; here that becomes one gather of halfwords per operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from openane.engine.coefficients import (
    CORES,
    TABLE_BYTES,
    Channel,
    Coefficients,
    Packing,
    dense_channels,
    depthwise_channels,
    grouped_channels,
)
from openane.engine.table import Table
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import Bits, Floats, decode, decoded
from openane.simulator.context import Workspace
from openane.simulator.sparse import MASK_LANES, expand

HALFWORD = 2
GATHER = 1 << 15  # weights gathered at a time: their positions take four times their memory
LANES = 4         # lanes of a block from which blocks are copied whole
KEPT = 1 << 20    # weights up to which the positions are kept between runs


@dataclass(frozen=True, slots=True)
class Geometry:
    """What decides the placement: groups that have weights of their own, channels and weights per channel of each.

    `depthwise`: every channel reads its own inputs only, and all channels count as one group.
    """

    groups: int
    channels: int
    rows: int
    depthwise: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the weights: groups, channels, rows."""
        return self.groups, self.channels, self.rows


@dataclass(frozen=True, slots=True)
class Gather:
    """Byte positions of every coefficient in the memory behind the coefficients' slot.

    Weight r of output channel i lies at first[i] + r * step[i]; both are None where an operation has no weights.
    """

    geometry: Geometry
    first: np.ndarray | None     # int64 [groups * channels]
    step: np.ndarray | None      # int64 [groups * channels]
    bias: np.ndarray | None      # int64 [groups, channels]
    table: int | None

    def read_weights(self, store: np.ndarray, order: np.ndarray) -> Floats:
        """float32 [groups, channels, rows], the rows of each channel in `order`; ones where there are no weights."""
        weights = np.empty(self.geometry.shape, np.float32)
        if self.first is None or self.step is None:
            weights.fill(1)
            return weights
        flat = weights.reshape(len(self.first), -1)
        share = max(1, GATHER // self.geometry.rows)
        breaks = (np.diff(self.first) != HALFWORD) | (np.diff(self.step) != 0)
        blocks = np.concatenate(([0], np.flatnonzero(breaks) + 1))  # channels beside each other: lanes of one block
        for start in range(0, len(flat), share):
            part = slice(start, start + share)
            if LANES * len(blocks) <= len(flat):
                decode(self._copied(store, order, blocks, start, min(start + share, len(flat))), flat[part])
            else:
                decode(_halfwords(store, self.first[part, None] + self.step[part, None] * order), flat[part])
        return weights

    def _copied(self, store: np.ndarray, order: np.ndarray, blocks: np.ndarray, low: int, high: int) -> Bits:
        """The weights of channels `low` to `high`, block by block; `blocks` are the first channels of all blocks."""
        assert self.first is not None
        assert self.step is not None
        rows, plain = self.geometry.rows, bool((order[1:] > order[:-1]).all())
        bits = np.empty((high - low, rows), np.uint16)
        inside = blocks[(blocks > low) & (blocks < high)].tolist()
        for start, end in pairwise([low, *inside, high]):
            lanes = np.ndarray((rows, end - start), "<u2", store.data, int(self.first[start]),
                               (int(self.step[start]), HALFWORD))
            bits[start - low:end - low] = (lanes if plain else lanes[order]).T
        return bits

    def repeated(self, store: np.ndarray, order: np.ndarray, workspace: Workspace) -> Callable[[], Floats]:
        """What reads weights that change between runs, as `read_weights` does: where they lie is worked out once."""
        if self.first is None or self.step is None or len(self.first) * self.geometry.rows > KEPT:
            return lambda: self.read_weights(store, order)
        positions = self.first[:, None] + self.step[:, None] * order
        base = int(positions.min())
        places = positions - base
        if (store.ctypes.data + base) % HALFWORD or (places % HALFWORD).any():
            return lambda: self.read_weights(store, order)
        kept = workspace.positions(places // HALFWORD)
        words = store[base:base + (store.size - base) // HALFWORD * HALFWORD].view(np.uint16)

        def read() -> Floats:
            return decoded(words.take(kept, mode="clip")).reshape(self.geometry.shape)  # bounds are proved

        return read

    def read_bias(self, store: np.ndarray) -> Floats | None:
        """float32 [groups, channels], or None where the operation has no bias row."""
        return None if self.bias is None else decoded(_halfwords(store, self.bias))

    def read_table(self, store: np.ndarray) -> Table | None:
        """The activation table, or None. ProgramError when its mode is not described."""
        return None if self.table is None else Table.from_bytes(store[self.table:self.table + TABLE_BYTES].tobytes())


@dataclass(frozen=True, slots=True)
class Placed:
    """Where output channels lie, one number each: core, bytes from the start of its stream to the first weight, from
    one weight to the next, to the bias."""

    cores: np.ndarray
    weights: np.ndarray
    steps: np.ndarray
    bias: np.ndarray | None


def placement(geometry: Geometry, coefficients: Coefficients) -> list[Channel]:
    """Every output channel's place in the streams, group by group."""
    return _channels(geometry, coefficients.lanes, coefficients.bias, coefficients.table)


def _channels(geometry: Geometry, lanes: int, bias: bool, table: bool) -> list[Channel]:
    groups, channels, rows = geometry.shape
    if geometry.depthwise:
        return depthwise_channels(groups * channels, rows, bias=bias, table=table)
    if groups == 1:
        return dense_channels(channels, rows, lanes, bias=bias, table=table)
    return grouped_channels(groups, channels, rows, lanes, bias=bias, table=table)


@lru_cache(maxsize=32)
def _placed(geometry: Geometry, lanes: int, bias: bool, table: bool) -> Placed:
    """All places as arrays, remembered: layers of a model are alike."""
    numbers = [(each.core, each.weights, each.step, each.bias or 0)
               for each in _channels(geometry, lanes, bias, table)]
    cores, weights, steps, biases = np.array(numbers, np.int64).reshape(-1, 4).T.copy()
    return Placed(cores, weights * HALFWORD, steps * HALFWORD, biases * HALFWORD if bias else None)


def plan(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, what: str) -> Gather:
    """Where everything lies, every position proved to be inside its stream and `store`. SimulationError otherwise."""
    streams = {stream.core: stream for stream in coefficients.streams}
    for stream in coefficients.streams:
        if stream.offset < 0 or stream.size < 0 or stream.offset + stream.size > store.size:
            raise SimulationError(f"{what}: the coefficients of core {stream.core} lie at {stream.offset:#x} to "
                                  f"{stream.offset + stream.size:#x} of slot {coefficients.slot}, "
                                  f"which has {store.size:#x} bytes")
    table = _table_position(coefficients, what)
    if not coefficients.weights and not coefficients.bias:
        return Gather(geometry, None, None, None, table)
    if coefficients.packing is not Packing.DENSE:
        raise SimulationError(f"{what}: {coefficients.packing} coefficients have no positions of their own")
    _refuse_oversized(geometry, coefficients, what)
    placed = _placed(geometry, coefficients.lanes, coefficients.bias, coefficients.table)
    starts, ends = np.full(CORES, -1), np.zeros(CORES, np.int64)
    for core, stream in streams.items():
        starts[core], ends[core] = stream.offset, stream.offset + stream.size
    if (starts[placed.cores] < 0).any():
        idle = int(placed.cores[starts[placed.cores] < 0][0])
        raise SimulationError(f"{what}: core {idle} computes output channels but has no coefficient stream")
    base, end = starts[placed.cores], ends[placed.cores]
    first = step = bias = None
    if coefficients.weights:
        first, step = placed.weights + base, placed.steps
        _require_inside(first + step * (geometry.rows - 1), end, what)
    if placed.bias is not None:
        bias = (placed.bias + base).reshape(geometry.shape[:2])
        _require_inside(bias.reshape(-1), end, what)
    return Gather(geometry, first, step, bias, table)


def unpack_sparse(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, what: str,
                  kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None]:
    """Weights and biases of the zero-skipping form: float32 [groups, channels, rows] and [groups, channels]."""
    plan(Geometry(1, 1, 1), table_alone(coefficients), store, what)
    _refuse_oversized(geometry, coefficients, what)
    return expand(geometry.shape, coefficients, store, what, kernel)


def table_alone(coefficients: Coefficients) -> Coefficients:
    """The same streams with nothing but the table in them."""
    return Coefficients(slot=coefficients.slot, streams=coefficients.streams, weights=False, table=coefficients.table)


def _table_position(coefficients: Coefficients, what: str) -> int | None:
    if not coefficients.table:
        return None
    if not coefficients.streams or coefficients.streams[0].size < TABLE_BYTES:
        raise SimulationError(f"{what}: the activation table needs a coefficient stream of {TABLE_BYTES} bytes or more")
    return coefficients.streams[0].offset


def _refuse_oversized(geometry: Geometry, coefficients: Coefficients, what: str) -> None:
    """Before anything is allocated: the streams must be able to hold what the geometry asks for."""
    groups, channels, rows = geometry.shape
    held = sum(stream.size for stream in coefficients.streams)
    capacity = held // HALFWORD if coefficients.packing is Packing.DENSE else held * MASK_LANES
    if groups * channels * (rows if coefficients.weights else 1) > capacity:
        raise SimulationError(f"{what}: {groups} groups of {channels} channels with {rows} weights each do not fit "
                              f"the {held} bytes of its coefficient streams")


def _require_inside(last: np.ndarray, ends: np.ndarray, what: str) -> None:
    beyond = last + HALFWORD > ends
    if beyond.any():
        at = int(np.flatnonzero(beyond)[0])
        raise SimulationError(f"{what}: a coefficient of output channel {at} lies at {int(last[at]):#x}, beyond the "
                              f"end of its core's stream at {int(ends[at]):#x}")


def _halfwords(store: np.ndarray, positions: np.ndarray) -> Bits:
    """Halfwords at byte positions, whatever their alignment."""
    if store.ctypes.data % HALFWORD == 0 and not (positions % HALFWORD).any():
        aligned: Bits = store[:store.size // HALFWORD * HALFWORD].view(np.uint16)[positions // HALFWORD]
        return aligned
    high = store[positions + 1].astype(np.uint16) * np.uint16(256)
    pieces: Bits = store[positions].astype(np.uint16) + high
    return pieces
