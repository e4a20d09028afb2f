"""How far modelled times are from published measurements.

`--points FILE` names measurements: a JSON list of {source, chip, generation, kind, params, value, unit, notes}, as the
project's data folder has beside it. Points of sources that numbers were fitted to are listed apart and not scored; so
are points nobody can compute, with the reason. A factor is the larger of modelled and measured over the smaller.
`scatter` is the same between measurements of one thing and their middle, which no model can undercut; `repeat` what one
session says about another. `--json` prints one document.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing_points import Point, UnknownPointError, load, point
from timing_programs import Planned, planned
from timing_scatter import Scored, geomean, repeat, same_thing, scatter, summary

import openane as ane
from openane.chips.machines import own_target
from openane.timing import ClockState, EnginePart, SubmissionRoute, copies, dispatch, rates, schedule, waking

MILLI = 1e-3
AIMS = {"all": 1.35, "h13 conv": 1.25, "h13 matmul": 1.25, "h13 elementwise": 1.25, "h16 conv": 1.25,
        "h16 matmul": 1.25, "h16 elementwise": 1.25}
FITTED = {
    "ANEForge bench/results/rooflines (ANE rows": "copies of the host (relu, reduce_sum), tile path (gemm)",
    "dev-erik/ANE community_benchmarks/apple_m4_max_20260304_2.json": "M4 Max: dispatch, waking, repeated payloads",
    "dev-erik/ANE submissions/m3-ultra": "M3 Ultra: dispatch",
    "ANEForge tests/test_cost_model_analytic.py": "isolated calls",
    "maderix/ANE README + substack": "M4: tile path, waking",
    "ANEForge bench/results/gemv_bandwidth_sweep": "M5: coefficient path",
    "ane-linux-experiments receipts": "lowest clock",
}
"""Source to what was fitted to it."""
LOADED = {"M1 MBP 16GB": "twice as slow as other M1 in everything, its CPU rows too",
          "M2 Pro": "its CPU rows show that it was busy"}
"""Machines whose own records say that they were not idle."""
INCLUDED = ("host I/O", "incl. I/O", "includes host", "host copies")
WORST = 12


@dataclass(frozen=True, slots=True)
class Floors:
    """Seconds of a call that a source measured itself, with a program that computes next to nothing, by (source,
    chip): what its system and harness cost, which differs from the usual."""

    known: Mapping[tuple[str, str], float]

    @staticmethod
    def of(entries: Iterable[Any]) -> Floors:
        """Those among a file's entries; an operation, not a path, says that a program was run."""
        known = {}
        for entry in entries:
            if isinstance(entry, Mapping) and entry.get("kind") == "dispatch_floor" \
                    and isinstance(entry.get("params"), Mapping) and "op" in entry["params"]:
                try:
                    floor = point({**entry, "kind": "elementwise"})
                except UnknownPointError:
                    continue
                if floor.counts == "milliseconds":
                    known[floor.source, floor.chip] = floor.value * MILLI
        return Floors(known)

    def call(self, given: Point) -> float:
        """Seconds of a point's call around a program that takes no time."""
        usual = dispatch(given.chip, SubmissionRoute.MACOS).value or 0.0
        return self.known.get((given.source, given.chip), usual)


def modelled(given: Point, floors: Floors) -> Scored:
    """A point's modelled time, its call as its source measured it where it did. UnknownPointError where it cannot be
    computed."""
    machine = given.params.get("machine")
    if isinstance(machine, str) and machine in LOADED:
        raise UnknownPointError(f"{machine}: {LOADED[machine]}")
    rate = rates(given.chip, ClockState.RISING if given.params.get("isolated") else ClockState.FULL)
    if given.params.get("op") == "conv1x1_slope":
        few, many = (_chain(given, depth) for depth in (8, 40))
        spent = [schedule(plan.operations, rate) for plan in (few, many)]
        seconds, bound = (spent[1].seconds - spent[0].seconds) / 32, spent[1].tasks[-1].bound
        return Scored(given, _measured(given, few), seconds / MILLI, bound)
    plan = planned(given.params, own_target(given.chip))
    once = schedule(plan.operations, rate)
    seconds = once.seconds + floors.call(given) + waking(given.chip, once.seconds)
    if _with_copies(given):
        seconds += copies(given.chip, plan.read, plan.written).value or 0.0
    return Scored(given, _measured(given, plan), seconds / MILLI, max(EnginePart, key=once.decided))


def _measured(given: Point, plan: Planned) -> float:
    """Milliseconds that were measured; of a rate, those its program's work takes at it."""
    if given.counts == "milliseconds":
        return given.value
    amount = plan.amount(given.counts)
    if not amount:
        raise UnknownPointError(f"a rate of {given.counts}, of which its program has none")
    return amount / (given.value * given.per_second) / MILLI


def _chain(given: Point, depth: int) -> Planned:
    return planned({**given.params, "op": "chain_conv1x1", "depth": depth}, own_target(given.chip))


def _with_copies(given: Point) -> bool:
    """Whether the measurement includes the host's copies: it says so, or was made through an array interface."""
    if given.params.get("zero_copy"):
        return False
    return bool(given.params.get("host_copy")) or given.source.startswith("ANEForge") or \
        any(text in given.notes for text in INCLUDED)


def fitted(given: Point) -> bool:
    """Whether numbers were fitted to the point's source."""
    return any(given.source.startswith(source) for source in FITTED)


def evaluate(entries: Sequence[Any]) -> dict[str, Any]:
    """Every figure this prints."""
    found: dict[bool, list[Scored]] = {True: [], False: []}
    left: dict[str, int] = defaultdict(int)
    floors = Floors.of(entries)
    for entry in entries:
        try:
            given = point(entry)
            found[fitted(given)].append(modelled(given, floors))
        except UnknownPointError as error:
            left[str(error)] += 1
    scored, every = found[False], [*found[False], *found[True]]
    things = same_thing(every)
    return {
        "geomean_factor": geomean(each.factor for each in scored), "scored": len(scored),
        "scatter": scatter(scored, things), "repeat": repeat(scored, things), "aim": AIMS["all"],
        "groups": _grouped(scored, lambda each: each.point.group, every),
        "chips": _grouped(scored, lambda each: f"{each.point.chip} {each.point.kind}", every),
        "fitted": {"geomean_factor": geomean(each.factor for each in found[True]), "points": len(found[True]),
                   "sources": FITTED,
                   "groups": _grouped(found[True], lambda each: each.point.group, every)},
        "all": {"geomean_factor": geomean(each.factor for each in every), "points": len(every)},
        "not_scored": dict(left),
        "worst": [_miss(each, things) for each in sorted(scored, key=lambda each: -each.factor)[:WORST]],
    }


def _grouped(points: Sequence[Scored], key: Any, every: Sequence[Scored]) -> dict[str, Any]:
    groups: dict[str, list[Scored]] = defaultdict(list)
    for each in points:
        groups[key(each)].append(each)
    things = same_thing(every)
    return {name: {**summary(members, things), "aim": AIMS.get(name)} for name, members in sorted(groups.items())}


def _miss(each: Scored, things: Mapping[str, Sequence[Scored]]) -> dict[str, Any]:
    """A point with what is modelled, and what else was measured of the same thing."""
    others = sorted(other.measured for other in things[each.thing] if other is not each)
    nearest = min((max(value / each.modelled, each.modelled / value) for value in others), default=None)
    return {"chip": each.point.chip, "params": dict(each.point.params), "measured": each.measured,
            "modelled": each.modelled, "factor": each.factor, "bound": str(each.bound), "source": each.point.source,
            "notes": each.point.notes, "measured_elsewhere": others,
            "factor_to_nearest": nearest}


def default_points() -> Path | None:
    """The data folder's neighbour, where there is one."""
    corpus = os.environ.get("OPENANE_CORPUS")
    path = Path(corpus).parent / "facts" / "timing_points.json" if corpus else None
    return path if path is not None and path.exists() else None


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "-" if value is None else f"{value:.3f}"


def show(result: Mapping[str, Any]) -> None:
    """Prints what was found."""
    print(f"modelled over measured, geometric-mean factor: {number(result['geomean_factor'])} on {result['scored']} "
          f"points not fitted to (aim {AIMS['all']}; scatter of the measurements {number(result['scatter'])}, one "
          f"session against another {number(result['repeat'])}); {number(result['fitted']['geomean_factor'])} on "
          f"{result['fitted']['points']} fitted to; {number(result['all']['geomean_factor'])} on all "
          f"{result['all']['points']}")
    if result["fitted"]["points"] and not result["scored"]:
        print("none is scored: numbers were fitted to the sources of all that could be")
    for name, group in result["groups"].items():
        aim = f"  (aim {group['aim']})" if group["aim"] else ""
        print(f"  {name:<16} {number(group['geomean_factor'])}  of {group['scored']:>3}, bias {number(group['bias'])}, "
              f"scatter {number(group['scatter'])}, repeat {number(group['repeat'])}{aim}")
        if group["explained"]:
            print(f"    {group['explained']}")
        for source, one in group["sources"].items() if len(group["sources"]) > 1 else ():
            print(f"    {number(one['geomean_factor'])}  of {one['scored']:>3}, bias {number(one['bias'])}: {source}")
    if result["worst"]:
        print("worst:")
    for each in result["worst"]:
        what = ", ".join(f"{k} {v}" for k, v in each["params"].items() if k not in ("iter_ms", "weight_bytes"))
        others = ", ".join(f"{value:.3f}" for value in each["measured_elsewhere"])
        others = f"; other sessions {others}: at best {number(each['factor_to_nearest'])}" if others else ""
        print(f"  {each['chip']}: {what}: measured {each['measured']:.3f} ms, modelled {each['modelled']:.3f} "
              f"({each['bound']}){others}; {each['source']}")
    for reason, count in result["not_scored"].items():
        print(f"not scored, {count}: {reason}")


def main() -> int:
    """Scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", metavar="FILE", type=Path, default=default_points())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.points is None:
        print("timing: no measurements: name them with --points, or set OPENANE_CORPUS", file=sys.stderr)
        return 0
    try:
        result = evaluate(load(options.points))
    except (ValueError, ane.AneError) as error:
        print(f"timing: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
