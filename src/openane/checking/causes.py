"""What can be wrong with the numbers of a model, and which of several faults is the first cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from openane.record_classes import dataclass

GRAVE = 0.05
"""Error from which an operation counts though every output is right, and from which it leads to what shows it."""
SHARE = 0.3
"""Of the largest error that any operation adds: who adds less before it is not the first cause."""


class Cause(StrEnum):
    """What happened to numbers."""

    CONSTANT = "constant beyond fp16"
    INPUT = "input beyond fp16"
    SUM = "sum beyond 2^15"
    STORED = "stored beyond 65504"
    ROUNDED = "inputs rounded to fp16"
    PRODUCTS = "products below 2^-16 dropped"
    SMALL = "stored with few digits"
    TABLE = "error of a table"
    CANCELLATION = "cancellation"
    STEEP = "steep function"
    PLACES = "places rounded to fp16"
    PART = "small numbers beside larger ones"
    STEPS = "steps beside the right ones"
    CHOICE = "choice between near numbers"
    OFFSET = "detail lost beside an offset"
    ADDED = "error of the operation"


@dataclass(frozen=True, slots=True)
class NumericFault:
    """An operation that makes infinities or loses digits, in the model's name. `severity`: the relative error that it
    adds, at most 1, `inherited` the one that its inputs make; `place` counts results of the compiled graph. `grown` is
    the operation before it at which numbers became that much larger, or smaller, if one stands out."""

    operation: str
    tensor: str
    cause: Cause
    sentence: str
    help: str
    severity: float
    place: int
    infinite: int = 0
    inherited: float = 0.0
    grown: str = ""


INHERITING = (Cause.CANCELLATION, Cause.STEEP, Cause.PLACES, Cause.PART, Cause.STEPS, Cause.CHOICE, Cause.OFFSET,
              Cause.ROUNDED)
"""Causes that are an operation's own, though the error is in what it reads."""

Leads = Callable[[NumericFault, NumericFault], bool]
"""Whether the result at which the first fault is leads to that of the second."""


def ranked(faults: Sequence[NumericFault], leads: Leads) -> list[NumericFault]:
    """Faults, which are in the order that they are computed, the first cause first: what adds most, and before it what
    `leads` to that and is grave by itself or adds a notable share of it. What takes a part out of a tensor shows the
    error of others; what inherits more than it adds from one of the others comes last."""
    later = [each for each in faults if _is_secondary(each, faults, leads)]
    own = [each for each in faults if each not in later]
    most = max((each for each in own if not _shows(each, own, leads)), key=lambda each: each.severity, default=None)
    first = [] if most is None else [each for each in _notable(own, most) if each is most or leads(each, most)]
    return [*first, *(each for each in own if each not in first), *later]


def _notable(own: Sequence[NumericFault], most: NumericFault) -> list[NumericFault]:
    """What is grave by itself or adds a notable share of what `most` adds, and what made the numbers of these so large
    or small."""
    least = _least(most)
    origins = {each.grown for each in own if each.severity >= least}
    return [each for each in own if each.severity >= least or each.operation in origins]


def _shows(fault: NumericFault, own: Sequence[NumericFault], leads: Leads) -> bool:
    """Whether a fault is a part of small numbers whose error an earlier one made."""
    before = own[:own.index(fault)] if fault.cause is Cause.PART else ()
    return any(each.severity >= GRAVE and leads(each, fault) for each in before)


def _is_secondary(fault: NumericFault, faults: Sequence[NumericFault], leads: Leads) -> bool:
    """Whether more of an error was there before, and another fault is why: what no fault is known of, such as the
    rounding of many operations, hides none."""
    return fault.severity < fault.inherited and any(
        other is not fault and other.severity >= _least(fault) and leads(other, fault) for other in faults)


def _least(fault: NumericFault) -> float:
    """What another must add to count beside a fault."""
    return min(GRAVE, SHARE * fault.severity)
