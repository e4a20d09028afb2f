"""The rules of the engine's arithmetic by name: what each says, how it is known, and which generations follow it.

Where generations differ their `Arithmetic` says so (chips.arithmetic); everything else is the same on all of them as
far as is known. Measurements are published ones, made by others on the chips named. Rules of standing `candidate`
explain some measurements and are not applied to programs; `unplaced` ones are measured, but no program seen shows which
task they belong to. `ane chips NAME --arithmetic` prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from openane.chips import generations, get_chip
from openane.chips.arithmetic import Arithmetic
from openane.record_classes import dataclass


def _always(arithmetic: Arithmetic) -> bool:
    return True


class Standing(StrEnum):
    """How surely a rule is known."""

    SOLVED = "solved"        # reproduces published results of real chips bit for bit, as far as an error norm tells
    MEASURED = "measured"    # probed on a chip, published
    EXECUTED = "executed"    # Apple's compiled programs compute the right thing with it
    INFERRED = "inferred"    # fits what is known; nothing tests it
    UNPLACED = "unplaced"    # measured, but not known to belong to any task described here
    CANDIDATE = "candidate"  # explains some measurements only


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `statement` is what the simulator does, `evidence` why, `followed` which generations' arithmetic it is
    a rule of."""

    name: str
    statement: str
    standing: Standing
    evidence: str
    followed: Callable[[Arithmetic], bool] = _always

    @property
    def applied(self) -> bool:
        """Whether the simulator computes by it."""
        return self.standing not in (Standing.UNPLACED, Standing.CANDIDATE)


RULES: tuple[Rule, ...] = (
    Rule("products", "a product counts from an exponent sum of -16 and is rounded to 2^-16, ties away; products are "
         "added exactly in any order", Standing.SOLVED, "32 error norms on M1, M2, M2 Max, M4, M5, M5 Pro, M6"),
    Rule("output-conversion", "a sum is rounded to fp16 once, ties away from zero, subnormals kept", Standing.SOLVED,
         "the same error norms; ties to even miss them by 2e-5"),
    Rule("accumulator-range", "a sum of two or more products is infinite from 2^15 on, also while it is being made",
         Standing.MEASURED, "M1: 32752 passes, 32768 does not, at any length; the order of partial sums is assumed"),
    Rule("single-product", "a pointwise convolution of one input channel uses the whole fp16 range", Standing.MEASURED,
         "M1: 60000 passes"),
    Rule("bias-before-scale", "y = activation(scale * (sum + bias row + bias)), unrounded up to the output conversion",
         Standing.EXECUTED, "Apple's programs; where a bias is rounded is not tested by any published result"),
    Rule("winograd", "dense 3x3 convolutions of stride 1 run through F(2, 3) along the width, transforms rounded to "
         "fp16, ties away", Standing.SOLVED, "error norms of M5, M5 Pro (h17) and M6 (h18); M1, M2, M4 compute "
         "directly", lambda arithmetic: arithmetic.winograd),
    Rule("planar-single-precision", "the planar engine computes in float32 and rounds half to even, with the whole "
         "fp16 range", Standing.MEASURED, "M1: 65504 passes a reduction, elementwise results overflow at 65520"),
    Rule("planar-sums", "reductions add in double precision", Standing.INFERRED,
         "row sums of integers are exact to 2048; norms of long rows show more error (tests/open_fingerprints.txt)"),
    Rule("not-a-number-in", "NaN is read as +inf; no result is ever NaN", Standing.MEASURED, "M1"),
    Rule("undefined-is-zero", "inf - inf, 0 * inf and roots and logarithms of negative numbers are +0",
         Standing.MEASURED, "M1"),
    Rule("zero-without-sign", "a zero loses its sign as it is read", Standing.MEASURED,
         "M1: 1 / -0 is +inf, -0 + 0 is +0"),
    Rule("subnormals", "subnormal fp16 numbers pass elementwise operations unchanged; products of them vanish below "
         "half of 2^-16", Standing.MEASURED, "M1; M5 is said to keep sums of subnormals, which contradicts `products`"),
    Rule("tables", "33 knots, linear between them, on the unrounded accumulator; two lines beyond, clips at the ends",
         Standing.EXECUTED, "every table of Apple's programs; the error at the origin is that of the knots. Knots are "
         "the program's: those openane makes err less than published of Apple's (gelu 0.0050 against 0.0059; sin, cos, "
         "atan 0.0017 against 0.04 to 0.12)"),
    Rule("width-crop-gain", "a slice of the width that begins inside goes through a gain of 16: 4095 and more becomes "
         "infinite", Standing.UNPLACED, "M1, M2; from A15 on no such limit. Nothing openane compiles meets it: it "
         "reads a slice in place, by address and strides; no program of Apple's at hand slices the width",
         lambda arithmetic: arithmetic.crop_gain),
    Rule("tiles-of-four", "a row is added in tiles of four neighbours, each with an adder of a 12-bit window; tiles "
         "are added exactly", Standing.CANDIDATE, "19 probes of short row sums on M1 with magnitudes of 4096 beside 1, "
         "which compiled programs miss (tests/open_fingerprints.txt)"),
)


def rules_of(generation: str) -> tuple[Rule, ...]:
    """The rules a generation (`h13`) follows."""
    arithmetic = get_chip(generation).arithmetic
    return tuple(rule for rule in RULES if rule.followed(arithmetic))


def generations_of(rule: Rule) -> tuple[str, ...]:
    """The generations that follow a rule, oldest first."""
    return tuple(name for name in generations() if rule.followed(get_chip(name).arithmetic))
