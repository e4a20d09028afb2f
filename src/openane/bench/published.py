"""Published tables of direct users of the engine, reproduced by the timing model: value, modelled, ratio.

Rows that a number of the model was fitted to prove nothing and say so (`fitted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from openane.bench.measure import modelled_seconds, surety
from openane.bench.programs import chain_conv1x1
from openane.chips.machines import own_target
from openane.compiler import compile
from openane.graph import Graph
from openane.timing import SubmissionRoute

PATHS = "Orion and others, four execution paths (M4 Max)"
PEAK = "training reports (M4 Max)"
SWEEP = "community sweeps of one layer's weights (M4 Max)"
NOTES = {PATHS: "one modelled number for all paths: in this test, the only one of all four, none is faster at both "
                "sizes, and no published figure says what a path costs of itself"}
"""What a reader of a table has to know."""
CALL = "the chip's dispatch is the geometric mean of these rows' and another session's"
SESSION = "dispatch, what a sleeping host adds, and repeated payloads are fitted to this session"
OTHER = 1024
"""Channels of the one row of the sweep that is another session's."""


@dataclass(frozen=True, slots=True)
class Published:
    """A row of a table. `unit` is ms or TFLOPS; `operations` turns a time into the latter.
    `fitted` says which numbers of the model were fitted to the row; empty where none was."""

    table: str
    what: str
    chip: str
    value: float
    unit: str
    graph: Callable[[], Graph]
    operations: float = 0.0
    fitted: str = ""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A row with what the model says, and what that number is: `modelled` or `extrapolated`."""

    row: Published
    modelled: float
    known: str

    @property
    def ratio(self) -> float:
        """Modelled over published."""
        return self.modelled / self.row.value

    @property
    def factor(self) -> float:
        """The ratio or its inverse, at least 1."""
        return max(self.ratio, 1 / self.ratio)


def _path(name: str, inputs: int, width: int, value: float) -> Published:
    return Published(PATHS, f"{name}, {inputs}x{width}", "m4 max", value, "ms",
                     partial(chain_conv1x1, 1, inputs, 1, width, 0), fitted=CALL)


def _swept(channels: int, value: float) -> Published:
    return Published(SWEEP, f"{channels} channels, {channels * channels * 2 / 1e6:.1f} MB", "m4 max", value, "ms",
                     partial(chain_conv1x1, 1, channels, 1, 64, 0), fitted="" if channels == OTHER else SESSION)


PUBLISHED: tuple[Published, ...] = (
    _path("standard", 64, 32, 0.175), _path("standard", 768, 256, 0.205),
    _path("real-time", 64, 32, 0.093), _path("real-time", 768, 256, 0.246),
    _path("processRequest", 64, 32, 0.131), _path("processRequest", 768, 256, 0.185),
    _path("direct", 64, 32, 0.225),
    Published(PEAK, "128 x conv 512 channels, 64 wide", "m4 max", 11.14, "TFLOPS",
              partial(chain_conv1x1, 128, 512, 1, 64, 1), 2.0 * 128 * 512 * 512 * 64),
    *(_swept(channels, value) for channels, value in (
        (256, 0.115), (512, 0.102), (1024, 0.188), (1536, 0.155), (2048, 0.190), (2560, 0.261), (3072, 0.322),
        (4096, 0.974), (4608, 0.509), (5120, 0.593), (6144, 0.764))),
)


def reproduce() -> Iterator[Reproduced]:
    """Every row with its modelled value; planned for the chip's generation, calls through macOS."""
    for row in PUBLISHED:
        target = own_target(row.chip)
        seconds = modelled_seconds([compile(row.graph(), target=target)], row.chip, SubmissionRoute.MACOS)
        yield Reproduced(row, seconds * 1e3 if row.unit == "ms" else row.operations / seconds / 1e12,
                         surety(row.chip, SubmissionRoute.MACOS, target))
