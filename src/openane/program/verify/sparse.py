"""Zero-skipping coefficient streams, walked by their own lengths.

Per block of lanes: [one bias halfword per lane], the body's length in bytes, the body: per input channel the slots of
`engine.coefficients.sparse_taps`, as wide as the block and at least 4, eight values to a mask byte that is followed by
the halfwords it announces. A body must hold exactly its masks and what they announce, and nothing where the kernel has
no tap.
"""

from __future__ import annotations

from openane.engine import Coefficients, Stream
from openane.engine.coefficients import PAD, SPARSE_LENGTH, SPARSE_WIDTH, TABLE_BYTES, blocks, sparse_taps
from openane.program.model import Constants

MASK_LANES = 8
HALFWORD = 2


class _Overrun(Exception):
    """A stream that ends too early or does not follow the form."""


class _Walk:
    """A position in one core's stream."""

    def __init__(self, constants: Constants, stream: Stream, start: int) -> None:
        self._constants, self._base, self.end, self.at = constants, stream.offset, stream.size, start
        self.name = f"core {stream.core}"

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start = self._base + self.at
        self.at += count
        if self.at > self.end or start + count > len(self._constants):
            raise _Overrun(f"{self.name}: byte {self.at} of a stream of {self.end}")
        return bytes(self._constants[start:start + count])


def sparse_defect(shape: tuple[int, int, int], kernel: tuple[int, int], coefficients: Coefficients,
                  constants: Constants) -> str:
    """What is wrong with streams of `shape` (groups, channels, rows); empty when nothing is. The work is bounded by
    the streams' size."""
    groups, channels, rows = shape
    start = TABLE_BYTES if coefficients.table else 0
    walks = {stream.core: _Walk(constants, stream, start) for stream in coefficients.streams}
    held = sum(stream.size for stream in coefficients.streams)
    if min(kernel) < 1 or groups * channels * rows > held * MASK_LANES:
        return f"{groups} x {channels} x {rows} weights in {held} bytes"
    inputs = rows // (kernel[0] * kernel[1])
    try:
        for _ in range(groups):
            for core, lanes, _ in blocks(channels, coefficients.lanes):
                if core not in walks:
                    return f"no stream for core {core}"
                _block(walks[core], inputs, kernel, lanes, coefficients.bias)
            for walk in walks.values():
                walk.at = min(-(-walk.at // PAD) * PAD, walk.end)
    except _Overrun as overrun:
        return str(overrun)
    return ""


def _block(walk: _Walk, inputs: int, kernel: tuple[int, int], lanes: int, bias: bool) -> None:
    walk.take(HALFWORD * lanes if bias else 0)
    body = walk.take(int.from_bytes(walk.take(SPARSE_LENGTH), "little"))
    empty = _empty_lanes(kernel, lanes)
    at, length = 0, len(body)
    for _ in range(inputs):
        for forbidden in empty:
            if at >= length:
                raise _Overrun(f"{walk.name}: a body of {length} bytes ends before its masks do")
            mask = body[at]
            if mask & forbidden:
                raise _Overrun(f"{walk.name}: mask {mask:#04x} names a lane or a tap that does not exist")
            at += 1 + HALFWORD * mask.bit_count()
    if at != length:
        raise _Overrun(f"{walk.name}: a body of {length} bytes whose masks and values take {at}")


def _empty_lanes(kernel: tuple[int, int], lanes: int) -> list[int]:
    """Per mask byte of one input channel, the bits that must not be set."""
    width = max(lanes, SPARSE_WIDTH)
    used = [tap is not None and lane < lanes for tap in sparse_taps(*kernel) for lane in range(width)]
    used += [False] * (-len(used) % MASK_LANES)
    return [sum(2 ** bit for bit in range(MASK_LANES) if not used[first + bit])
            for first in range(0, len(used), MASK_LANES)]
