"""Unpacks weights, biases and tables from coefficient streams.

`chips.coefficients` says where each coefficient lies; here that becomes one gather of halfwords per operation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from openane.chips.coefficients import HALFWORD, CoefficientFormat, CoefficientPlacement, CoreRun
from openane.chips.table_format import TableFormat
from openane.engine import Coefficients, CoefficientSection, Geometry, Packing
from openane.engine.table import Table
from openane.errors import SimulationError
from openane.machine_code.patience import patience
from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import INFINITY_BITS, Bits, Floats, decode, decoded, has_special
from openane.simulator.calls import LoopCall
from openane.simulator.kernels import Kernels
from openane.simulator.sparse import unpacked
from openane.simulator.threads import lanes_for, portions

Stores = Callable[[int], np.ndarray]
"""Gives the bytes behind a slot (uint8)."""
Known = tuple[Floats, bool | None]
"""Weights, and whether they are finite where that is known."""

GATHER = 1 << 15  # weights gathered at a time: their positions take four times their memory
LANES = 4         # lanes of a block from which blocks are copied whole


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Weights in their memory: its words, and of every block of channels that lie beside each other the first word, how
    far apart those of its terms are, the first channel and how many it has (int64 [blocks, 4])."""

    words: Bits
    runs: np.ndarray

    def finite(self, rows: int) -> bool:
        """Whether all weights are, so many of a channel, as a look at every word from the first to the last shows."""
        first, step, _, count = self.runs.T
        return not has_special(self.words[int(first.min()):int((first + step * (rows - 1) + count).max())])


@dataclass(frozen=True, slots=True)
class ChangingWeights:
    """Weights that may be others whenever they are read: the words of their memory, of which those of a channel begin
    at `first` and lie `step` apart (int64), its rows in `order`; `shape` is that of the weights."""

    words: Bits
    first: np.ndarray
    step: np.ndarray
    order: np.ndarray
    shape: tuple[int, int, int]

    def read(self, kernels: Kernels | None) -> Known:
        """As they are now, and whether they are finite where that is known."""
        weights = np.empty(self.shape, np.float32)
        if kernels is not None and self.words.flags.writeable:
            call, = self.calls(weights, 1)
            return weights, not getattr(kernels, call.loop)(*call.arguments)
        flat, share = weights.reshape(len(self.first), -1), max(1, GATHER // self.shape[2])
        for start in range(0, len(flat), share):
            part = slice(start, start + share)
            places = self.first[part, None] + self.step[part, None] * self.order
            decode(self.words.take(places, mode="clip"), flat[part])  # bounds are proved
        return weights, None

    def calls(self, weights: Floats, threads: int) -> list[LoopCall]:
        """What reads them, where all are finite, by so many threads."""
        flat = weights.reshape(-1)
        return [LoopCall("gather", (self.words, self.first[part], self.step[part], self.order,
                                    flat[part.start * self.shape[2]:part.stop * self.shape[2]]), zeros=1)
                for part in portions(len(self.first), lanes_for(weights.size, threads))]


@dataclass(frozen=True, slots=True)
class Gather:
    """Byte positions of every coefficient in the memory behind its section's slot.

    Weight r of output channel i lies at first[i] + r * step[i]; both are None where an operation has no weights.
    `table` is the slot of the activation table and its place, `form` how its bytes are read.
    """

    geometry: Geometry
    first: np.ndarray | None     # int64 [groups * channels]
    step: np.ndarray | None      # int64 [groups * channels]
    bias: np.ndarray | None      # int64 [groups, channels]
    table: tuple[int, int] | None
    form: TableFormat

    def read_weights(self, store: np.ndarray, order: np.ndarray) -> Known:
        """float32 [groups, channels, rows], the rows of each channel in `order`; ones where there are no weights."""
        weights = np.empty(self.geometry.shape, np.float32)
        if self.first is None or self.step is None:
            weights.fill(1)
            return weights, True
        loop, packed = patience().unpacker(weights.size), self._packed(store)
        if loop is not None and packed is not None:
            return weights, loop(packed.words, packed.runs.reshape(-1), order, weights.reshape(-1)) < INFINITY_BITS
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
        return weights, None

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

    def changing(self, store: np.ndarray, order: np.ndarray) -> ChangingWeights | None:
        """Weights that change between runs; None where there are none, or at odd places."""
        if self.first is None or self.step is None:
            return None
        base = int((self.first + np.minimum(self.step, 0) * int(order.max(initial=0))).min())
        first = self.first - base
        if (store.ctypes.data + base) % HALFWORD or (first % HALFWORD).any() or (self.step % HALFWORD).any():
            return None
        words = store[base:base + (store.size - base) // HALFWORD * HALFWORD].view(np.uint16)
        return ChangingWeights(words, first // HALFWORD, self.step // HALFWORD, order.astype(np.int64),
                               self.geometry.shape)

    def packed(self, store: np.ndarray, order: np.ndarray) -> PackedWeights | None:
        """The weights where they lie; None where most channels do not lie beside others, or terms in another order."""
        if self.first is None or len(self.first) != self.geometry.channels \
                or not np.array_equal(order, np.arange(len(order))):
            return None
        found = self._packed(store)
        return found if found is not None and LANES * len(found.runs) <= len(self.first) else None

    def _packed(self, store: np.ndarray) -> PackedWeights | None:
        """The weights where they lie; None at odd places."""
        assert self.first is not None
        assert self.step is not None
        places, steps = self.first + store.ctypes.data, self.step
        if (places % HALFWORD).any() or (steps % HALFWORD).any():
            return None
        breaks = (np.diff(places) != HALFWORD) | (np.diff(steps) != 0)
        blocks = np.concatenate(([0], np.flatnonzero(breaks) + 1))
        base = int(self.first.min()) % HALFWORD
        words = store[base:base + (store.size - base) // HALFWORD * HALFWORD].view(np.uint16)
        counts = np.diff(blocks, append=len(places))
        runs = np.stack([(self.first[blocks] - base) // HALFWORD, steps[blocks] // HALFWORD, blocks, counts], 1)
        return PackedWeights(words, np.ascontiguousarray(runs, np.int64))

    def read_bias(self, store: np.ndarray) -> Floats | None:
        """float32 [groups, channels], or None where the operation has no bias row."""
        return None if self.bias is None else decoded(_halfwords(store, self.bias))

    def read_table(self, stores: Stores) -> Table | None:
        """The activation table, or None. ProgramError when its mode is not described."""
        if self.table is None:
            return None
        slot, place = self.table
        return self.form.unpack(stores(slot)[place:place + self.form.size].tobytes())


@dataclass(frozen=True, slots=True)
class Placed:
    """Where output channels lie, one number each: core, bytes from the start of its stream to the first weight, from
    one weight to the next, to the bias."""

    cores: np.ndarray
    weights: np.ndarray
    steps: np.ndarray
    bias: np.ndarray | None


@lru_cache(maxsize=32)
def _placed(form: CoefficientFormat, geometry: Geometry, lanes: int, bias: bool, head: int) -> Placed:
    """All places as arrays, remembered: layers of a model are alike."""
    placement = form.dense(geometry, lanes, bias, head)
    found = np.empty((4, placement.groups, geometry.groups * geometry.channels // placement.groups), np.int64)
    for run in placement.runs:
        _fill(found, placement, run)
    cores, weights, steps, biases = found.reshape(4, -1)
    return Placed(cores, weights * HALFWORD, steps * HALFWORD, biases * HALFWORD if bias else None)


def _fill(found: np.ndarray, placement: CoefficientPlacement, run: CoreRun) -> None:
    """Core, first weight, step and bias of a run's channels, in halfwords from the start of their streams."""
    group = np.arange(placement.groups)[:, None, None, None]
    turn = np.arange(run.rounds)[:, None, None]
    core = np.arange(run.core, run.core + run.cores)[:, None]
    lane = np.arange(run.count)
    channels = (run.first + (turn * run.turn + core - run.core) * run.width + lane).reshape(-1)
    block = placement.head // HALFWORD + group * placement.planes[run.core] + run.place \
        + turn * (placement.rows + placement.bias) * run.width + 0 * core
    shape = (placement.groups, run.rounds, run.cores, run.count)
    for row, values in enumerate((core, block + placement.bias * run.width + lane, run.width, block + lane)):
        found[row][:, channels] = np.broadcast_to(np.asarray(values), shape).reshape(placement.groups, -1)


def plan(geometry: Geometry, coefficients: Coefficients, stores: Stores, form: CoefficientFormat, what: str) -> Gather:
    """Where everything lies, every position proved to be inside its stream and its store. SimulationError otherwise."""
    for each in coefficients.sections:
        _require_held(each, stores(each.slot), what)
    table = _table_position(coefficients, form, what)
    weights, biases = coefficients.weights, coefficients.bias
    section = weights or biases
    if section is None:
        return Gather(geometry, None, None, None, table, form.table)
    if coefficients.packing is not Packing.DENSE:
        raise SimulationError(f"{what}: {coefficients.packing} coefficients have no positions of their own")
    if biases is not None and weights is not None and biases != weights:
        raise SimulationError(f"{what}: biases apart from the weights have no described place")
    _refuse_oversized(geometry, coefficients, form, what)
    placed = _placed(form, geometry, coefficients.lanes, biases is not None, form.head(coefficients))
    starts, ends = np.full(form.cores, -1), np.zeros(form.cores, np.int64)
    for stream in section.streams:
        starts[stream.core], ends[stream.core] = stream.offset, stream.offset + stream.size
    if (starts[placed.cores] < 0).any():
        idle = int(placed.cores[starts[placed.cores] < 0][0])
        raise SimulationError(f"{what}: core {idle} computes output channels but has no coefficient stream")
    base, end = starts[placed.cores], ends[placed.cores]
    first = step = bias = None
    if weights is not None:
        first, step = placed.weights + base, placed.steps
        _require_inside(first + step * (geometry.rows - 1), end, what)
    if placed.bias is not None:
        bias = (placed.bias + base).reshape(geometry.shape[:2])
        _require_inside(bias.reshape(-1), end, what)
    return Gather(geometry, first, step, bias, table, form.table)


def unpack_sparse(geometry: Geometry, coefficients: Coefficients, stores: Stores, form: CoefficientFormat, what: str,
                  kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None, bool | None]:
    """Weights and biases of the zero-skipping form, see `sparse.unpacked`."""
    weights = coefficients.weights
    if weights is None:
        raise SimulationError(f"{what}: zero-skipping coefficients without weights are not described")
    _require_held(weights, stores(weights.slot), what)
    _refuse_oversized(geometry, coefficients, form, what)
    return unpacked(geometry, coefficients, stores(weights.slot), form, what, kernel)


def table_alone(coefficients: Coefficients) -> Coefficients:
    """The same with nothing but the table."""
    return Coefficients(table=coefficients.table)


def _require_held(section: CoefficientSection, store: np.ndarray, what: str) -> None:
    for stream in section.streams:
        if stream.offset < 0 or stream.size < 0 or stream.offset + stream.size > store.size:
            raise SimulationError(f"{what}: the coefficients of core {stream.core} lie at {stream.offset:#x} to "
                                  f"{stream.offset + stream.size:#x} of slot {section.slot}, "
                                  f"which has {store.size:#x} bytes")


def _table_position(coefficients: Coefficients, form: CoefficientFormat, what: str) -> tuple[int, int] | None:
    table = coefficients.table
    if table is None:
        return None
    if not table.streams or table.streams[0].size < form.table.size:
        raise SimulationError(f"{what}: the activation table needs a coefficient stream of {form.table.size} bytes or "
                              "more")
    return table.slot, table.streams[0].offset


def _refuse_oversized(geometry: Geometry, coefficients: Coefficients, form: CoefficientFormat, what: str) -> None:
    """Before anything is allocated: the streams must be able to hold what the geometry asks for."""
    groups, channels, rows = geometry.shape
    section = coefficients.weights or coefficients.bias
    held = 0 if section is None else section.streams.total
    capacity = held // HALFWORD if coefficients.packing is Packing.DENSE else held * form.sparse.values
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
