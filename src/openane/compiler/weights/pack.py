"""Packs weights into coefficient streams: numpy arrays become the bytes each core reads, laid out as the chip's format
says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import groupby

import numpy as np

from openane.chips.coefficients import HALFWORD, CoefficientFormat, CoefficientPlacement, CoreRun, SparseFormat
from openane.compiler.weights.lay_out import FOUR, RowPlaces, lay, loop_for, turn
from openane.compiler.weights.whole_bodies import BodyRows, WholeBody, write_bodies
from openane.engine import Geometry, Packing
from openane.record_classes import dataclass
from openane.rounding import round_up

HOLES = 16
"""Rows with zeros are made one by one while there are that many times as many without."""
Part = bytes | np.ndarray | WholeBody


@dataclass(frozen=True, slots=True)
class PackedCoefficients:
    """Streams of one task, one behind the other in `size` bytes: `streams` lists (core, offset, bytes). `weights` and
    `bias` are what is packed, `form` where it goes if that does not depend on the values, and `head` what every stream
    begins with then; otherwise `parts` are the bytes."""

    size: int
    streams: tuple[tuple[int, int, int], ...]
    lanes: int
    packing: Packing = Packing.DENSE
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    form: CoefficientPlacement | None = None
    head: bytes = b""
    parts: tuple[Part, ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes by themselves."""
        section = np.zeros(self.size, np.uint8)
        self.write(section)
        return section.tobytes()

    def write(self, section: np.ndarray) -> None:
        """Puts the streams into `size` bytes (uint8) that are zero."""
        place, whole = 0, list[tuple[int, WholeBody]]()
        for part in filter(len, self.parts):
            if isinstance(part, WholeBody):
                whole.append((place, part))
            else:
                section[place:place + len(part)] = np.frombuffer(part, np.uint8)
            place += len(part)
        write_bodies(section, whole)
        if self.form is None:
            return
        assert self.weights is not None, "what has a form has weights"
        write_dense(self.form, section, 0, self.weights, self.bias)
        for _, offset, _ in self.streams if self.head else ():
            section[offset:offset + len(self.head)] = np.frombuffer(self.head, np.uint8)


def pack_dense(form: CoefficientFormat, weights: np.ndarray, bias: np.ndarray | None, lanes: int,
               table: bytes | None = None) -> PackedCoefficients:
    """Streams of weights [groups, channels, rows] and bias [groups, channels] (both become fp16), behind a table where
    there is one."""
    groups, channels, rows = weights.shape
    head = table or b""
    place = form.dense(Geometry(groups, channels, rows), lanes, bias is not None, len(head))
    size = sum(size for _, _, size in place.streams)
    return PackedCoefficients(size, place.streams, lanes, Packing.DENSE, weights, bias, place, head)


def pack_table(table: bytes, cores: int, apart: bool = False) -> PackedCoefficients:
    """A table alone: every active core reads the same bytes. Room for one each is kept, as Apple does for generations
    in which a core reads it as a stream of its own, and not where it is read once for all (`apart`)."""
    size = len(table)
    return PackedCoefficients(size if apart else cores * size, tuple((core, 0, size) for core in range(cores)), 1,
                              parts=(table,))


def write_dense(place: CoefficientPlacement, section: np.ndarray, base: int, weights: np.ndarray,
                bias: np.ndarray | None) -> None:
    """Puts weights [groups, channels, rows] and biases [groups, channels], rounded to fp16, into a section of bytes
    (uint8) from `base` on; what lies between is left as it is."""
    with np.errstate(over="ignore"):
        values = np.asarray(weights).astype("<f2", copy=False)
        biases = None if bias is None else np.asarray(bias).astype("<f2", copy=False)
    (groups, _, rows), offsets = values.shape, {core: offset for core, offset, _ in place.streams}
    loop = loop_for(values, [run.count for run in place.runs])
    for run in place.runs:
        start = base + offsets[run.core] + place.head + HALFWORD * run.place
        extents, row = (groups, run.rounds, run.cores), HALFWORD * run.width
        outer = (HALFWORD * place.planes[run.core], (rows + place.bias) * row, run.spacing)
        first = start + row * place.bias
        if loop is not None and run.count % FOUR == 0:
            lay(loop, section, values, (run.count, rows), *_blocks(run, values.shape, first, outer), RowPlaces(row))
        else:
            target = np.ndarray((*extents, rows, run.count), "<f2", section, first, (*outer, row, HALFWORD))
            turn(target, _taken(run, values).swapaxes(3, 4))
        if biases is not None:
            np.ndarray((*extents, run.count), "<f2", section, start, (*outer, HALFWORD))[...] = _taken(run, biases)


@lru_cache(maxsize=1 << 8)
def _blocks(run: CoreRun, shape: tuple[int, ...], first: int, outer: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Where a run's blocks are among weights [groups, channels, rows], and where they go: from byte `first` on, and
    `outer` bytes from group to group, round to round, core to core."""
    groups, channels, rows = shape
    extents, lanes = (groups, run.rounds, run.cores), rows * run.width
    taken = _places(extents, (rows * channels, lanes * run.turn, lanes))
    return rows * run.first + taken, first + _places(extents, outer)


def _places(extents: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Where things lie that follow each other in several dimensions."""
    each = [step * np.arange(extent) for extent, step in zip(extents, steps, strict=True)]
    return np.asarray(reduce(np.add.outer, each)).reshape(-1)


def _taken(run: CoreRun, values: np.ndarray) -> np.ndarray:
    """A run's [groups, rounds, cores, count, ...] of [groups, channels, ...]."""
    extents = (len(values), run.rounds, run.cores, run.count, *values.shape[2:])
    if run.count == run.width and (run.rounds == 1 or run.turn == run.cores):
        return values[:, run.first:run.first + run.rounds * run.cores * run.count].reshape(extents)
    step = values.strides[1]
    return np.lib.stride_tricks.as_strided(
        values[:, run.first:], extents,
        (values.strides[0], run.turn * run.width * step, run.width * step, step, *values.strides[2:]))


def pack_sparse(form: CoefficientFormat, weights: np.ndarray, bias: np.ndarray | None, lanes: int,
                table: bytes | None = None) -> PackedCoefficients:
    """Zero-skipping streams of a stride-2 convolution, weights [groups, channels, Cin, Kh, Kw], biases
    [groups, channels].

    See chips.coefficients.SparseFormat. Every group's streams are padded.
    """
    streams: dict[int, list[Part]] = {}
    for group in range(weights.shape[0]):
        _sparse_group(form, streams, weights[group], None if bias is None else bias[group], lanes, table or b"")
        for stream in streams.values():
            stream.append(bytes(-sum(map(len, stream)) % form.alignment))
    places, end = [], 0
    for core, stream in sorted(streams.items()):
        size = sum(map(len, stream))
        places.append((core, end, size))
        end += size
    parts = tuple(part for _, stream in sorted(streams.items()) for part in stream)
    return PackedCoefficients(end, tuple(places), lanes, Packing.SPARSE, weights, bias, parts=parts)


def _sparse_group(form: CoefficientFormat, streams: dict[int, list[Part]], weights: np.ndarray,
                  bias: np.ndarray | None, lanes: int, table: bytes) -> None:
    """Appends the blocks of one group, weights [channels, Cin, Kh, Kw]; a stream begins with the table."""
    channels, inputs, *kernel = weights.shape
    taps = form.sparse.taps(kernel[0], kernel[1])
    values = weights.astype("<f2", copy=False).reshape(channels, inputs, -1).view(np.ndarray)
    heads = None if bias is None else bias.astype("<f2")
    first = 0
    for (width, count), blocks in groupby(form.blocks(channels, lanes), lambda block: block[1:]):
        cores = [core for core, _, _ in blocks]
        many, end = len(cores), first + len(cores) * count
        bodies = _bodies(values[first:end].reshape(many, count, inputs, -1), taps, form.sparse.width(width),
                         form.sparse)
        known = np.zeros((many, 0 if heads is None else width), "<f2")
        if heads is not None:
            known[:, :count] = heads[first:end].reshape(many, count)
        for core, head, body in zip(cores, known, bodies, strict=True):
            streams.setdefault(core, [table]).extend(
                (head.tobytes(), len(body).to_bytes(form.sparse.length, "little"), body))
        first = end


def _bodies(values: np.ndarray, taps: list[int | None], width: int, form: SparseFormat) -> Sequence[Part]:
    """Weights [blocks, channels, Cin, taps] of blocks alike, each as bytes: slots of `width` halfwords, zeros
    skipped."""
    count, group = values.shape[1], form.values
    if count < width or (width % group and group % width):
        return [_skipped(_slots(block, taps, width), form) for block in values]
    rows, read = BodyRows.of(taps, width, form), [tap for tap in taps if tap is not None]
    bodies: list[Part] = [WholeBody(values, number, rows) for number in range(len(values))]
    for number, block in enumerate(values):
        if np.abs(block).view("<u2").min():  # of one block at a time, which stays at hand
            continue
        holes = np.flatnonzero(_has_zeros(block if len(read) == block.shape[2] else block[..., read]))
        if holes.size:
            bodies[number] = _without_zeros(rows.laid_out(values[number:number + 1])[0], block, holes, taps, form)
    return bodies


def _without_zeros(body: np.ndarray, values: np.ndarray, holes: np.ndarray, taps: list[int | None],
                   form: SparseFormat) -> np.ndarray:
    """Bytes of rows [Cin, bytes] that were made of [channels, Cin, taps] as if no value were zero; the rows `holes`
    have some."""
    if HOLES * holes.size > len(body):
        return _skipped(_slots(values, taps, len(values)), form)
    parts, start = [], 0
    for hole in holes.tolist():
        row = _slots(values[:, hole:hole + 1], taps, len(values))
        parts += [body[start:hole].reshape(-1), _skipped(row, form)]
        start = hole + 1
    return np.concatenate([*parts, body[start:].reshape(-1)])


def _slots(values: np.ndarray, taps: list[int | None], width: int) -> np.ndarray:
    """[channels, Cin, taps] as rows of slots [Cin, slots * width], zeros where nothing is."""
    slots = np.zeros((values.shape[1], len(taps), width), "<f2")
    for slot, tap in enumerate(taps):
        if tap is not None:
            slots[:, slot, :len(values)] = values[:, :, tap].T
    return slots.reshape(len(slots), -1)


def _has_zeros(halves: np.ndarray) -> np.ndarray:
    """For each input of [channels, Cin, taps] whether a weight is zero."""
    bits = np.abs(halves).view("<u2")
    return np.asarray(bits.min(axis=0).min(axis=-1) == 0)


def _skipped(slots: np.ndarray, form: SparseFormat) -> np.ndarray:
    """Rows of halfwords [rows, slots] as masks and nonzero halfwords, row after row."""
    (rows, width), group = slots.shape, form.values
    padded = slots
    if width % group:
        padded = np.zeros((rows, round_up(width, group)), "<f2")
        padded[:, :width] = slots
    groups = padded.reshape(-1, group)
    nonzero = np.abs(groups).view("<u2") != 0  # many times faster than comparing fp16
    table = np.zeros((len(groups), form.mask + HALFWORD * group), np.uint8)
    table[:, :form.mask] = np.packbits(nonzero, axis=1, bitorder="little")
    table[:, form.mask:] = groups.view(np.uint8)
    kept = np.ones(table.shape, bool)
    kept[:, form.mask:] = np.repeat(nonzero, HALFWORD, axis=1)
    return table[kept]
