"""Scores of timing points, and how far measurements of one thing differ from each other.

Sessions of one machine differ: the same layers took up to four times as long in the first of four sessions of an M4 Max
as in the three others, with nothing in their records that tells them apart. What no model can undercut is printed
beside what the model does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import exp, log
from statistics import median
from typing import Any

from timing_points import Point

from openane.timing import EnginePart

CIRCUMSTANCES = ("machine", "iter_ms", "io_fp32", "via", "weight_bytes", "shared_weights", "host_copy", "zero_copy")
"""Parameters that say how something was measured, not what."""
WIDE = 1.25
"""Sessions that differ by more cannot be told from each other by any model."""


@dataclass(frozen=True)
class Scored:
    """A point with its measured and modelled time, in milliseconds, and what the model says decides it."""

    point: Point
    measured: float
    modelled: float
    bound: EnginePart

    @property
    def ratio(self) -> float:
        """Modelled over measured."""
        return self.modelled / self.measured

    @property
    def factor(self) -> float:
        """At least 1."""
        return max(self.ratio, 1 / self.ratio)

    @cached_property
    def thing(self) -> str:
        """What was measured, on which chip."""
        what = {key: value for key, value in self.point.params.items() if key not in CIRCUMSTANCES}
        if what.get("op") == "chain_conv1x1":
            what.setdefault("H", 1)
        return json.dumps([self.point.chip, what], sort_keys=True, default=str)


def geomean(factors: Iterable[float]) -> float | None:
    """Geometric mean; None of nothing."""
    logs = [log(factor) for factor in factors]
    return exp(sum(logs) / len(logs)) if logs else None


def same_thing(points: Iterable[Scored]) -> dict[str, list[Scored]]:
    """The measurements of each thing."""
    things: dict[str, list[Scored]] = defaultdict(list)
    for each in points:
        things[each.thing].append(each)
    return things


def scatter(points: Iterable[Scored], things: Mapping[str, Sequence[Scored]]) -> float | None:
    """The geometric-mean factor between those of the points that were measured again and the middle of all measurements
    of the same thing: no model has less on them."""
    factors = []
    for each in points:
        values = [other.measured for other in things[each.thing]]
        if len(values) > 1:
            middle = exp(median(log(value) for value in values))
            factors.append(max(each.measured / middle, middle / each.measured))
    return geomean(factors)


def repeat(points: Iterable[Scored], things: Mapping[str, Sequence[Scored]]) -> float | None:
    """The geometric-mean factor between two measurements of one thing, over all pairs."""
    factors = []
    for name in {each.thing for each in points}:
        pairs = combinations([other.measured for other in things[name]], 2)
        factors += [max(one / other, other / one) for one, other in pairs]
    return geomean(factors)


def summary(points: Sequence[Scored], things: Mapping[str, Sequence[Scored]]) -> dict[str, Any]:
    """The figures of a group, by source too."""
    sources: dict[str, list[Scored]] = defaultdict(list)
    for each in points:
        sources[each.point.source].append(each)
    own, between = scatter(points, things), repeat(points, things)
    by_source = {name: {"geomean_factor": geomean(each.factor for each in members), "scored": len(members),
                        "bias": geomean(each.ratio for each in members), "scatter": scatter(members, things)}
                 for name, members in sorted(sources.items())}
    return {"geomean_factor": geomean(each.factor for each in points), "scored": len(points),
            "bias": geomean(each.ratio for each in points), "scatter": own, "repeat": between,
            "repeated": sum(len(things[each.thing]) > 1 for each in points),
            "worst_pair": max((_range(things[each.thing]) for each in points), default=1.0),
            "sources": by_source, "explained": _explained(points, things, by_source)}


def _range(members: Sequence[Scored]) -> float:
    return max(each.measured for each in members) / min(each.measured for each in members)


def _explained(points: Sequence[Scored], things: Mapping[str, Sequence[Scored]], sources: Mapping[str, Any]) -> str:
    """What the data's own scatter says about a group; empty where it says nothing."""
    between = repeat(points, things)
    if between is None or between <= WIDE:
        return ""
    count = sum(len(things[each.thing]) > 1 for each in points)
    text = (f"the data differ by more than {WIDE} themselves: one session says another's time to a factor of "
            f"{between:.3f}, up to {max(_range(things[each.thing]) for each in points):.1f}, on the {count} points "
            "measured again")
    apart = [name for name, one in sources.items() if (one["scatter"] or 1.0) > WIDE]
    if apart:
        rest = geomean(each.factor for each in points if each.point.source not in apart)
        text += f"; farthest from the middle of all: {', '.join(apart)}" + \
            (f"; the rest: {rest:.3f}" if rest is not None else "")
    return text
