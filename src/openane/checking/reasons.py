"""What is said of causes: a plain sentence each, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from openane.checking.names import short
from openane.chips.arithmetic import QUANTUM, SUM_LIMIT
from openane.graph import Node
from openane.ops.halves import LARGEST, SMALLEST

SAFE = "compile with --precision safe, which moves numbers into the engine's range by powers of two"
HELP = {
    "CONSTANT": "divide the constant by a power of two, and multiply what it makes by that where it is small again",
    "INPUT": "scale the input down before the model and its first weights up",
    "SUM": "divide its weights, or its input, by a power of two, and multiply behind it where numbers are small again",
    "STORED": "scale what it reads down, or clip it before",
    "ROUNDED": "keep its input away from there: add a constant that fp16 holds, or clip it below",
    "PRODUCTS": "multiply its weights or its input by a power of two, and divide behind it",
    "SMALL": "multiply what makes it by a power of two, and divide behind it",
    "TABLE": "ask for close functions where the model has none (graph.metadata[\"functions\"] = \"close\"), write the "
             "function with operations that the engine computes exactly, or keep its input where the table is close",
    "CANCELLATION": "compute the difference from smaller numbers: take a constant or the mean away before, or write "
                    "the expression without the difference",
    "STEEP": "an error that its input has cannot be taken back: see which operations before it add most, or keep its "
             "input smaller",
    "PLACES": "give a sample that is like what the model will see (--sample); and let what is constant, such as a grid "
              "that displacements are added to, come last: it is added with all digits then",
    "PART": "an error beside large numbers is large beside small ones: make these of their own, or see whether they "
            "matter",
    "STEPS": "what it reads is close already: compare outputs by steps, or quantise what reads it with finer steps, or "
             "not at all",
    "CHOICE": "nothing where either choice will do: compare the numbers it chooses between, or see which operations "
              "before it add most",
    "OFFSET": "leave the constant out where it is taken away again, or add it behind",
    "ADDED": "run ane run --check --arithmetic exact --json for the tasks of this operation",
}
SCALES = ("SUM", "STORED", "PRODUCTS", "SMALL")
"""Causes that --precision safe may remove."""


def help_for(cause: str, scaled: bool) -> str:
    """What would help against a cause, `scaled` where --precision safe has been tried."""
    return HELP[cause] if scaled or cause not in SCALES else f"{SAFE}; or {HELP[cause]}"


def input_beyond(name: str, size: float) -> str:
    """An input that fp16 does not hold."""
    return f"the input reaches {size:.4g}, and fp16 ends at {LARGEST:.0f}: it is infinite before anything is computed"


def constant_beyond(name: str, count: int, size: int) -> str:
    """A constant that fp16 does not hold."""
    return f"{count} of the {size} numbers of its {name!r} are beyond fp16, which ends at {LARGEST:.0f}, and so "\
        "infinite"


def merged(into: str) -> str:
    """That an operation is computed by another's task."""
    return f" (it was merged into {into}, whose sums they are)"


def small_constant(name: str, size: float) -> str:
    """A constant of which fp16 holds few digits."""
    return (f"the numbers of its {name!r} are near {size:.2g}, where fp16 has steps of {SMALLEST:.2g}: they keep few "
            "digits")


def sum_beyond(size: float) -> str:
    """A sum that the accumulator does not hold."""
    return f"its sums reach {size:.4g}, and the engine's sums of products are infinite from {SUM_LIMIT:.0f} (2^15) on"


def partial_sum(size: float) -> str:
    """A sum that left the accumulator on the way."""
    return (f"its sums pass {SUM_LIMIT:.0f} (2^15) on the way, where the engine's accumulator is infinite, though the "
            f"results reach no more than {size:.4g}")


def stored_beyond(node: Node, size: float) -> str:
    """A result that fp16 does not hold."""
    return f"its results reach {size:.4g}, and fp16 ends at {LARGEST:.0f}: they are stored as infinities"


def inside_beyond(node: Node, size: float) -> str:
    """A step of a composed operation that left the range."""
    return (f"its results reach no more than {size:.4g}, but a step of {short(node.label)} on the engine passes what "
            f"sums ({SUM_LIMIT:.0f}) or fp16 ({LARGEST:.0f}) hold")


def grown(name: str, times: float, larger: bool) -> str:
    """Where numbers became as large or small as they are."""
    return f"; {name} before it makes numbers {times:.3g} times {'larger' if larger else 'smaller'}"


def rounded(node: Node) -> str:
    """Inputs that fp16 rounds to where the function is infinite."""
    return (f"rounded to fp16, whose smallest number is {SMALLEST:.2g}, some of its inputs become numbers of which "
            f"{node.op} is infinite (such as 0), in fp32 too")


def products(size: float, error: float) -> str:
    """Products that the accumulator drops."""
    return (f"its products are near {size:.2g}, and the engine rounds each to a multiple of 2^-16 ({QUANTUM:.2g}) "
            f"before it adds: what is lost is {error:.0%} of the result")


def small(size: float, error: float) -> str:
    """Results of which fp16 holds few digits."""
    return (f"its results are near {size:.2g}, where fp16 has steps of {SMALLEST:.2g}: {error:.0%} of them is lost")


def table(node: Node, error: float) -> str:
    """A function of a table."""
    return (f"the engine computes {node.op} by a table of 33 knots, which errs by {error:.0%} of the result for the "
            "numbers it gets here")


def added(node: Node, error: float) -> str:
    """An error of no known kind."""
    return f"the engine's result differs from {node.op} of the same inputs in fp32 by {error:.0%}"


def cancelled(before: float, after: float, error: float, made: float, inputs: Sequence[str]) -> str:
    """Digits that a difference takes away."""
    source = " and ".join(inputs[:2]) or "its inputs"
    return (f"numbers near {before:.3g} become numbers near {after:.3g}, so that what rounding to fp16 took from its "
            f"inputs (from {source}; {error:.2%} of them) is {made:.0%} of the result: they cancel")


def steep(node: Node, size: float, error: float, made: float, source: str = "its input") -> str:
    """Digits that a function of one tensor takes away, an exponential of large numbers say."""
    return (f"{node.op} is steep for numbers near {size:.3g}: what rounding to fp16 took from them (from {source}; "
            f"{error:.2%} of them) is {made:.0%} of the result")


def places(node: Node, made: float) -> str:
    """What lies beside the places that are read."""
    return (f"{node.op} reads at places that are computed in fp16, whose rounding moves them a little, and what lies "
            f"there is another number: {made:.0%} of the result, more where neighbours differ by more (drawn inputs "
            "are noise)")


def part(before: float, after: float, error: float, made: float, source: str = "its input") -> str:
    """Small numbers that an operation takes out of a tensor of larger ones."""
    return (f"it takes numbers near {after:.3g} out of a tensor whose numbers are near {before:.3g} (from {source}): "
            f"the error of all of these is {error:.2%}, and of the ones it takes {made:.0%}")


def other_steps(error: float, made: float, source: str = "its input") -> str:
    """Steps of quantisation that small errors change."""
    return (f"its results are whole steps of quantisation, and an error of {error:.2%} in what it reads (from "
            f"{source}) makes some of them the step beside: {made:.1%} of the result")


def choice(node: Node, error: float, made: float, source: str = "its input") -> str:
    """What is decided otherwise because numbers are nearly the same."""
    return (f"{node.op} decides between numbers of which some are nearly the same: an error of {error:.2%} in what it "
            f"reads (from {source}) makes it decide otherwise there: {made:.0%} of the result")


def offset(size: float, detail: float, felt: str) -> str:
    """Digits that a constant takes away."""
    return (f"it adds a constant near {size:.3g}, beside which fp16 keeps so few digits that {detail:.0%} of the rest "
            f"is lost; {felt} takes the constant away again, and has what is left")
