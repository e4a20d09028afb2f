"""Bodies of zero-skipping weights none of which is zero: they lie as the form alone says, and are written when it is
known where they go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.chips.coefficients import HALFWORD, SparseFormat
from openane.compiler.weights.lay_out import EIGHT, RowPlaces, lay, loop_for
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class BodyRows:
    """How rows lie, one for each input, `size` bytes from one to the next. `masks` has the place of each first one, the
    bytes from group to group, and what is there; `places` a tap, where its first lanes are, and the same bytes. There
    are `groups` of `lanes`."""

    size: int
    lanes: int
    groups: int
    masks: tuple[tuple[int, int, int], ...]
    places: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(taps: Sequence[int | None], width: int, form: SparseFormat) -> BodyRows:
        """Those of blocks as wide as they may be."""
        group = form.values
        lanes, groups, together = min(width, group), max(1, width // group), max(1, group // width)
        masks, places, end = [], [], 0
        for first in range(0, len(taps), together):
            held = [(i, tap) for i, tap in enumerate(taps[first:first + together]) if tap is not None]
            pitch, head = form.mask + HALFWORD * lanes * len(held), end + form.mask
            mask = sum((2 ** lanes - 1) * 2 ** (lanes * slot) for slot, _ in held).to_bytes(form.mask, "little")
            masks += [(end + i, pitch, byte) for i, byte in enumerate(mask)]
            places += [(tap, head + HALFWORD * lanes * number, pitch) for number, (_, tap) in enumerate(held)]
            end += groups * pitch
        return BodyRows(end, lanes, groups, tuple(masks), tuple(places))

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """Weights [blocks, channels, Cin, taps] as bytes [blocks, Cin, bytes], as if no value were zero."""
        blocks, _, inputs, _ = values.shape
        body = np.zeros((blocks, inputs, self.size), np.uint8)
        for start, step, byte in self.masks:
            body[..., start:start + self.groups * step:step] = byte
        for tap, start, step in self.places:
            place = np.ndarray((blocks, inputs, self.groups, self.lanes), "<f2", body, start,
                               (inputs * self.size, self.size, step, HALFWORD))
            place[...] = values[..., tap].swapaxes(1, 2).reshape(blocks, inputs, self.groups, self.lanes)
        return body


@dataclass(frozen=True, eq=False, slots=True)
class WholeBody:
    """Block `number` of weights [blocks, channels, Cin, taps], none of which is zero."""

    values: np.ndarray
    number: int
    rows: BodyRows

    def __len__(self) -> int:
        return int(self.values.shape[2]) * self.rows.size


def write_bodies(section: np.ndarray, placed: Sequence[tuple[int, WholeBody]]) -> None:
    """Puts bodies into bytes (uint8) that are zero, each from a place on."""
    alike: dict[int, list[tuple[int, WholeBody]]] = {}
    for place, body in placed:
        alike.setdefault(id(body.values), []).append((place, body))
    for bodies in alike.values():
        first = bodies[0][1]
        numbers, starts = [body.number for _, body in bodies], [place for place, _ in bodies]
        if not _by_loop(section, first, numbers, starts):
            made = first.rows.laid_out(first.values)
            for place, number in zip(starts, numbers, strict=True):
                section[place:place + len(first)] = made[number].reshape(-1)


def _by_loop(section: np.ndarray, body: WholeBody, numbers: Sequence[int], starts: Sequence[int]) -> bool:
    """Puts bodies of the same weights as one by the compiled loop, if that is at hand and does it."""
    rows, (_, channels, inputs, taps) = body.rows, body.values.shape
    steps = {step for _, _, step in rows.places}
    even = rows.groups == 1 or (rows.lanes == EIGHT and len(steps) == 1)
    loop = loop_for(body.values, (rows.lanes,)) if even and len(rows.places) == taps else None
    if loop is None:
        return False
    within = np.zeros(taps, np.int64)
    for tap, start, _ in rows.places:
        within[tap] = start
    marks = [(start + group * step, byte) for start, step, byte in rows.masks for group in range(rows.groups)]
    gap, (places, masks) = HALFWORD * EIGHT if rows.groups == 1 else min(steps), zip(*marks, strict=True)
    lie = RowPlaces(rows.size, gap, within, np.array(places), np.array(masks, np.uint8))
    size = channels * inputs * taps
    lay(loop, section, body.values, (channels, inputs * taps), size * np.array(numbers), np.array(starts), lie)
    return True
