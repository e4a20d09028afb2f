"""The numbers of the timing model that are not a chip's clocks: each with its source and how surely it is known.

`fitted` numbers were fitted to published measurements; `benchmarks/timing.py` says which sources, and scores on others.
"""

from __future__ import annotations

from openane.chips.machines import Figure, Known
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class TimingParameter:
    """A number, its unit, how it is known and by whom."""

    value: float
    unit: str
    known: Known
    source: str

    @property
    def figure(self) -> Figure:
        """The number without its source."""
        return Figure(self.value, self.known)


@dataclass(frozen=True, slots=True)
class TimingParameters:
    """What `operation` and `program` compute with. The defaults are what is believed; scores compare alternatives."""

    pixels: TimingParameter = TimingParameter(
        16, "positions a lane of a core computes at once", Known.DERIVED,
        "256 multipliers a core (peak figures), 16 lanes of output channels a core (compiler tables)")
    efficiency: TimingParameter = TimingParameter(
        0.95, "of the multiply array's peak", Known.MEASURED, "M6 reaches 0.975, M4 0.98 on large convolutions")
    task_cycles: TimingParameter = TimingParameter(
        44, "cycles between two tasks", Known.TABLE, "the compiler's own model for M1; M6 measured at most 33")
    l2_bytes: TimingParameter = TimingParameter(
        64, "bytes a cycle in each direction", Known.DERIVED, "constant of the compiler's model, M6: 116.0 GB/s")
    planar_elements: TimingParameter = TimingParameter(
        32, "elements a cycle", Known.MEASURED, "M6; carried over to other chips")
    kernel_efficiency: TimingParameter = TimingParameter(
        0.89, "of 64 bytes a fabric cycle and channel", Known.DERIVED, "51 of 57.6 GB/s on M1")
    tile_fallback: TimingParameter = TimingParameter(
        42e9, "bytes a second", Known.GUESS, "M1's, for chips nobody has measured")


BELIEVED = TimingParameters()
