"""The numbers behind the rules of this folder, per generation: tiles, rings, cache hints, log masks, idle values.

None of them decides what a task computes. Evidence: the recorded programs of Apple's compiler for the generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openane.chips.limits import Limits


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
    staged_multiple: int             # wide rows that are no multiple of so many elements go out from whole rows in L2
    staged_width: int                # elements of a planar patch's row then


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


@dataclass(frozen=True, slots=True)
class Hints:
    """Cache hints by field name: of an operand that is streamed and of one that is not, of a streamed operand other
    tasks read too, of scratch that is read and written, of results and of coefficient streams."""

    used_source: Mapping[str, int]
    idle_source: Mapping[str, int]
    read_again: Mapping[str, int]
    read_earlier: Mapping[str, int]
    from_scratch: Mapping[str, int]
    to_scratch: int
    result: int
    coefficients: int
    stated: int                      # DependencyMode of an operand in L2 that is stated as memory


@dataclass(frozen=True, slots=True)
class LogMasks:
    """What the firmware logs, by the task's position in the program: of every task, the first, the last."""

    every: int
    first: int
    last: int
    debug_every: int
    debug_first: int
    debug_last: int


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
