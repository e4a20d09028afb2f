"""The bodies of zero-skipping weights: where they lie in the streams of cores.

For each block of lanes a stream has one bias halfword per lane (where there are biases), the length of the body in
bytes, and the body, which `chips.coefficients.SparseFormat` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from openane.chips.coefficients import HALFWORD, CoefficientFormat, SparseFormat
from openane.engine import Coefficients, CoefficientStream, Geometry
from openane.errors import ProgramError
from openane.program.model import Constants
from openane.record_classes import dataclass
from openane.rounding import round_up


@dataclass(frozen=True, slots=True)
class SparseBody:
    """A body at bytes `start` to `end` of the constants, of `lanes` lanes, the first `count` of which are channels of a
    group from `channel` on. `bias` is the first byte of its biases, where it has any."""

    core: int
    group: int
    channel: int
    lanes: int
    count: int
    bias: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BodyForm:
    """How bodies hold the weights of `inputs` input channels and a kernel."""

    form: SparseFormat
    kernel: tuple[int, int]
    inputs: int

    def allowed(self, lanes: int) -> tuple[int, ...]:
        """Of every mask of an input channel the bits that it may have, in bodies of so many lanes."""
        width, values = self.form.width(lanes), self.form.values
        used = [tap is not None and lane < lanes for tap in self.form.taps(*self.kernel) for lane in range(width)]
        used += [False] * (-len(used) % values)
        return tuple(sum(2 ** bit for bit in range(values) if used[first + bit])
                     for first in range(0, len(used), values))


Follower = Callable[[BodyForm, Sequence[SparseBody], Constants], bool]
"""Says whether every body holds its masks, and what they announce, and nothing else."""


class _StreamPosition:
    """A position in one core's stream."""

    def __init__(self, data: Constants, stream: CoefficientStream, head: int) -> None:
        self._data, self.at = data, stream.offset + head
        self._start, self._end = stream.offset, stream.offset + stream.size
        self._name, self._size = f"core {stream.core}", stream.size

    def skip(self, count: int) -> int:
        """Goes so many bytes on, and says where they begin. ProgramError behind the stream's end."""
        start = self.at
        self.at += count
        if self.at > self._end or self.at > len(self._data):
            raise ProgramError(f"{self._name}: a body up to byte {self.at - self._start} lies past the end of its "
                               f"stream of {self._size} bytes")
        return start

    def length(self, size: int) -> int:
        """A number of so many bytes."""
        start = self.skip(size)
        return int.from_bytes(bytes(self._data[start:start + size]), "little")

    def align(self, alignment: int) -> None:
        """Goes on to the next multiple of an alignment, or to the end."""
        self.at = self._start + min(round_up(self.at - self._start, alignment), self._size)


def sparse_bodies(geometry: Geometry, coefficients: Coefficients, data: Constants,
                  form: CoefficientFormat) -> Iterator[SparseBody]:
    """Every body of weights in order. ProgramError where a core has no stream, or one ends too early."""
    assert coefficients.weights is not None
    head, bias = form.head(coefficients), coefficients.bias is not None
    positions = {stream.core: _StreamPosition(data, stream, head) for stream in coefficients.weights.streams}
    for group in range(geometry.groups):
        channel = 0
        for core, lanes, count in form.blocks(geometry.channels, coefficients.lanes):
            position = positions.get(core)
            if position is None:
                raise ProgramError(f"no stream for core {core} of {form.cores}, which computes output channels")
            biases = position.skip(HALFWORD * lanes) if bias else None
            start = position.skip(position.length(form.sparse.length))
            yield SparseBody(core, group, channel, lanes, count, biases, start, position.at)
            channel += count
        for position in positions.values():
            position.align(form.alignment)
