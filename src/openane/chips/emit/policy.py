"""The numbers behind the rules of this folder, per generation: tiles, rings, cache hints, log masks, idle values.

None of them decides what a task computes. Evidence: the recorded programs of Apple's compiler for the generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from openane.chips.limits import Limits
from openane.record_classes import dataclass
from openane.registers import Value

Positions = tuple[int, int, int, int]
"""A number of a program's only task, of the first of several, of those between, of the last."""


@dataclass(frozen=True, slots=True)
class PatchRules:
    """The patches in which the engines walk over a result. A neural-engine core works on 2^`pixels` pixels: 2^s rows of
    2^(`pixels` - s), at least 2^`narrowest` wide. All but `small_side`, `small_stream`, `staged_multiple` and
    `staged_width` are logarithms to base 2."""

    pixels: int
    narrowest: int
    streamed: int                    # most rows of a patch of a streamed source
    small_rows: int                  # rows of a patch of a small result
    small_side: int                  # a result is small up to so many rows and columns
    small_stream: int                # while the stream of a core has fewer bytes than this
    planar_widths: tuple[int, int]   # narrowest and widest patch of the planar engine
    planar_height: int
    planar_pixels: tuple[int, int]   # pixels of a planar patch with one operand, with two
    copies_bounded: bool             # patches of copies and tables are bounded by the height, and to `streamed`
    small_unbiased: int              # small results of streams up to so many bytes take the patches their window needs
    turned_lanes: int                # most lanes in which a copy out of memory turns rows into channels; 1: no lanes
    turned_channels: int             # channels for each of those lanes
    turned_flat: int                 # log2 of the rows of such a copy's patch where there is one channel
    few_rows: tuple[int, ...]        # log2 of a product's patch up to 8 rows, beyond; () where small results' are taken
    staged_multiple: int             # wide rows that are no multiple of so many elements go out from whole rows in L2
    staged_width: int                # elements of a planar patch's row then
    turned_near: bool = False        # copies and tables out of L2 that turn rows and channels prefer high patches too


@dataclass(frozen=True, slots=True)
class RingRules:
    """Where streamed operands pass through L2."""

    chained_rows: int                         # rows of a tile between tasks that hand over directly
    planar_rows: int                          # rows of a planar tile where the whole height does not fit
    planar_width: int                         # elements of a row of a planar tile
    neural_bytes: int                         # bytes of a row of a neural-engine tile
    second_alignment: int                     # bytes the ring of a second operand is aligned to
    narrowest: int                            # a neural-engine tile is at least 2^-`narrowest` of the widest
    pads: tuple[tuple[int, int], ...]         # lines a neural-engine ring row is padded by, from so many lines on
    strided_pad: int                          # at most so many with a stride of 2
    padded_patch: int                         # log2 of the rows of a patch from which on there is a pad
    copy_pads: Mapping[int, int] = field(default_factory=dict)  # lines by that log2, of copies and tables
    own_pairs: bool = False                   # rings begin behind all of tensors that lie between each other
    own_second: bool = False                  # a second operand has its own extents, channels and alignment in its ring
    second_step: int = 0                      # a second ring that would begin at a multiple of this begins a line later


@dataclass(frozen=True, slots=True)
class Hints:
    """Cache hints by field name: of an operand that is streamed and of one that is not, of a streamed operand other
    tasks read too, of scratch that is read and written, of results and of coefficient streams."""

    used_source: Mapping[str, int]
    idle_source: Mapping[str, int]
    read_again: Mapping[str, int]
    read_earlier: Mapping[str, int]
    from_scratch: Mapping[str, int]
    to_scratch: Mapping[str, int]
    result: int
    coefficients: int
    stated: int                      # DependencyMode of an operand in L2 that is stated as memory


@dataclass(frozen=True, slots=True)
class LogMasks:
    """What the firmware logs, by the task's position in the program; `plain`: debug events of a neural-engine copy that
    is no operation of the model; `high`: events of the upper byte."""

    events: Positions
    debug: Positions
    plain: Positions
    high: Positions = (0, 0, 0, 0)
    exponents: int = 0x2000          # debug events that tasks do not log whose table is one of `exponents`


@dataclass(frozen=True, slots=True)
class IdleValues:
    """Values that decide nothing: the binary point and truncation of fp16, what unused coefficient streams and
    palettes state."""

    binary_point: int
    truncate: int
    unused_stream: int
    auxiliary_streams: int
    palette_bits: int


@dataclass(frozen=True, slots=True)
class EstimateRules:
    """The compiler's estimate of a task's time, which its header states; see `estimate`."""

    bytes_per_microsecond: int
    plane_nanoseconds: float
    resident_plane_nanoseconds: float
    largest: int
    streamed_vectors: bool = True       # vectors of a gain-offset that come from memory count as an operand
    resident_elementwise: bool = True   # elementwise operations on tensors in L2 take time


@dataclass(frozen=True, slots=True)
class Frames:
    """What tasks state where each lies in a frame of its own (from H14 on).

    `constant`: what every task states that has the register's side; `runtime`: what a stream of coefficients computed
    at run time states; `cache`: what a task states whose result goes to memory; `second_apart`: the second operand has
    a configuration word of its own in L2; `data_sets`: the slot that the data sets of memory operands name, None where
    none do; `second_twice`: the address of a second operand is written twice; `marker`: the words that keep tasks from
    ending at multiples of 64 bytes; `product`: fields of a product's second task, of up to 8 rows and of more.
    """

    constant: Mapping[str, Value]
    runtime: Mapping[str, Value]
    cache: Mapping[str, Value]
    second_apart: bool
    data_sets: int | None
    second_twice: bool = False
    marker: tuple[int, int] | None = None
    product: tuple[Mapping[str, Value], Mapping[str, Value]] = ({}, {})


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything above for one generation, and its limits."""

    limits: Limits
    patches: PatchRules
    rings: RingRules
    hints: Hints
    logs: LogMasks
    idle: IdleValues
    estimate: EstimateRules
    frames: Frames | None = None
