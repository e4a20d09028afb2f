"""Follows the bodies of zero-skipping weights, and takes out what they hold, by a compiled loop; see
`machine_code.unpacking`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from openane.chips.coefficients import HALFWORD
from openane.machine_code.patience import Unskipper, patience
from openane.program import Constants
from openane.program.sparse_bodies import BodyForm, Follower, SparseBody
from openane.rounding import round_up
from openane.simulator.arithmetic.half import INFINITY_BITS, Floats

NOTHING: Floats = np.empty(0, np.float32)


def follower(size: int) -> Follower | None:
    """What follows bodies, where the loop is at hand. The weights in constants of `size` bytes count: whoever has many
    to look at, and to unpack, brings it."""
    patience().unpacker(size // HALFWORD)
    loop = patience().unskipper(0)
    if loop is None:
        return None

    def follow(form: BodyForm, bodies: Sequence[SparseBody], data: Constants) -> bool:
        return all(_followed(loop, form, each, data, NOTHING, [0] * len(each))[0] < 0 for each in _alike(bodies))

    return follow


def unskipped(loop: Unskipper, form: BodyForm, bodies: Iterable[SparseBody], data: Constants | np.ndarray,
              shape: tuple[int, int, int]) -> tuple[Floats, bool] | None:
    """The weights, float32 of a `shape` [groups, channels, rows], and whether all are finite; rows are rows of the
    kernel, then input channels, then its columns. None where a body is not as it must be."""
    numbers, finite = np.zeros(shape, np.float32), True
    _, channels, rows = shape
    for each in _alike(bodies):
        lanes, count = each[0].lanes, each[0].count
        whole = lanes == count  # of other blocks only some lanes are channels
        target = numbers if whole else np.zeros((len(each), lanes, rows), np.float32)
        origins = [rows * (body.group * channels + body.channel if whole else number * lanes)
                   for number, body in enumerate(each)]
        failed, largest = _followed(loop, form, each, data, target.reshape(-1), origins)
        if failed >= 0:
            return None
        finite &= largest < INFINITY_BITS
        for body, found in zip(() if whole else each, () if whole else target, strict=True):
            numbers[body.group, body.channel:body.channel + count] = found[:count]
    return numbers, finite


def _alike(bodies: Iterable[SparseBody]) -> Iterator[list[SparseBody]]:
    """Bodies with the same lanes and channels, together."""
    ordered = sorted(bodies, key=lambda body: (body.lanes, body.count))
    return (list(group) for _, group in groupby(ordered, key=lambda body: (body.lanes, body.count)))


def _followed(loop: Unskipper, form: BodyForm, bodies: Sequence[SparseBody], data: Constants | np.ndarray,
              numbers: Floats, origins: Sequence[int]) -> tuple[int, int]:
    """What the loop gives of bodies with the same lanes."""
    lanes, masked = bodies[0].lanes, form.form.mask
    held = np.frombuffer(data, np.uint8)
    words = [held[start:start + (held.size - start) // HALFWORD * HALFWORD].view(np.uint16) for start in (0, 1)]
    at = [number for body, origin in zip(bodies, origins, strict=True) for number in (body.start, body.end, origin)]
    marks = b"".join(mask.to_bytes(masked, "little") for mask in form.allowed(lanes))
    return loop(held, *words, np.array(at, np.int64), np.frombuffer(marks, np.uint8), _places(form, lanes),
                (form.kernel[1], masked, form.inputs), numbers)


def _places(form: BodyForm, lanes: int) -> np.ndarray:
    """Where the values of the first input channel go, counted from where the first lane's weights begin: int64
    [values]."""
    (height, width), taps = form.kernel, form.form.taps(*form.kernel)
    slot_width = form.form.width(lanes)
    places = np.zeros(round_up(len(taps) * slot_width, form.form.values), np.int64)
    slots = places[:len(taps) * slot_width].reshape(len(taps), slot_width)
    for slot, tap in enumerate(taps):
        if tap is not None:
            row, column = divmod(tap, width)
            slots[slot, :lanes] = (row * form.inputs * width + column
                                   + height * width * form.inputs * np.arange(lanes))
    return places
