"""Checks zero-skipping coefficient streams by following the lengths that they state themselves.

For each block of lanes a stream has one bias halfword per lane (where there are biases), the length of the body in
bytes, and the body. The body has, for each input channel, the slots of `chips.coefficients.SparseFormat`: a mask of
several values, followed by as many halfwords as it announces. A body must hold exactly its masks and what they
announce, and no value where the kernel has no tap.
"""

from __future__ import annotations

from openane.chips.coefficients import HALFWORD, CoefficientFormat, SparseFormat
from openane.engine import Coefficients, CoefficientStream, Geometry
from openane.errors import ProgramError
from openane.program.model import Constants
from openane.rounding import round_up


class _Overrun(Exception):
    """A stream that ends too early or does not follow the form."""


class _Walk:
    """A position in one core's stream."""

    def __init__(self, constants: Constants, stream: CoefficientStream, start: int) -> None:
        self._constants, self._base, self.end, self.at = constants, stream.offset, stream.size, start
        self.name = f"core {stream.core}"

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start = self._base + self.at
        self.at += count
        if self.at > self.end or start + count > len(self._constants):
            raise _Overrun(f"{self.name}: byte {self.at} of a stream of {self.end}")
        return bytes(self._constants[start:start + count])


def sparse_defect(geometry: Geometry, kernel: tuple[int, int], coefficients: Coefficients, constants: Constants,
                  form: CoefficientFormat) -> str:
    """What is wrong with streams of weights that zeros are left out of; empty when nothing is. The work is bounded by
    the streams' size."""
    assert coefficients.weights is not None
    streams = coefficients.weights.streams
    walks = {stream.core: _Walk(constants, stream, form.head(coefficients)) for stream in streams}
    if min(kernel) < 1 or geometry.weights > streams.total * form.sparse.values:
        return f"{geometry} in {streams.total} bytes"
    inputs = geometry.rows // (kernel[0] * kernel[1])
    try:
        for _ in range(geometry.groups):
            for core, lanes, _ in form.blocks(geometry.channels, coefficients.lanes):
                if core not in walks:
                    return f"no stream for core {core}"
                _block(walks[core], inputs, kernel, lanes, coefficients.bias is not None, form.sparse)
            for walk in walks.values():
                walk.at = min(round_up(walk.at, form.alignment), walk.end)
    except _Overrun as overrun:
        return str(overrun)
    return ""


def _block(walk: _Walk, inputs: int, kernel: tuple[int, int], lanes: int, bias: bool, form: SparseFormat) -> None:
    walk.take(HALFWORD * lanes if bias else 0)
    body = walk.take(int.from_bytes(walk.take(form.length), "little"))
    empty = _empty_lanes(kernel, lanes, form)
    found = 0
    try:
        for rows in form.rows(body, len(empty)):
            found += rows.count
            for place, forbidden in zip(rows.places, empty, strict=True):
                at = rows.start + place
                mask = int.from_bytes(body[at:at + form.mask], "little")
                if mask & forbidden:
                    raise _Overrun(f"{walk.name}: mask {mask:#x} names a lane or a tap that does not exist")
    except ProgramError as error:
        raise _Overrun(f"{walk.name}: {error}") from None
    if found != inputs:
        raise _Overrun(f"{walk.name}: a body with masks of {found} input channels where there are {inputs}")


def _empty_lanes(kernel: tuple[int, int], lanes: int, form: SparseFormat) -> list[int]:
    """Per mask of one input channel, the bits that must not be set."""
    used = [tap is not None and lane < lanes for tap in form.taps(*kernel) for lane in range(form.width(lanes))]
    used += [False] * (-len(used) % form.values)
    return [sum(2 ** bit for bit in range(form.values) if not used[first + bit])
            for first in range(0, len(used), form.values)]
