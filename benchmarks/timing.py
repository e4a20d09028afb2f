"""How far modelled times are from published measurements.

`--points FILE` names measurements: a JSON list of {source, chip, generation, kind, params, value, unit, notes}, as the
project's data folder has beside it. Points of sources that numbers were fitted to are listed apart and not scored; so
are points nobody can compute. A factor is the larger of modelled and measured over the smaller; `scatter` is the same
between measurements of one thing, which no model can undercut. `--json` prints one document.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

from timing_programs import Planned, UnknownPointError, planned

import openane as ane
from openane.timing import Part, Route, State, copies, dispatch, rates, schedule

MILLI = 1e-3
KINDS = ("conv", "matmul", "elementwise", "sram_cliff")
AIMS = {"all": 1.35, "h13 conv": 1.25, "h13 matmul": 1.25, "h13 elementwise": 1.25, "h16 conv": 1.25,
        "h16 matmul": 1.25, "h16 elementwise": 1.25}
FITTED = {
    "ANEForge bench/results/rooflines (ANE rows": "copies of the host (relu, reduce_sum), tile path (gemm)",
    "dev-erik/ANE community_benchmarks/apple_m4_max_20260304_2.json": "M4 Max: dispatch, repeated payloads",
    "dev-erik/ANE submissions/m3-ultra": "M3 Ultra: dispatch",
    "ANEForge tests/test_cost_model_analytic.py": "isolated calls",
    "maderix/ANE README + substack": "M4: tile path",
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
class Scored:
    """A point with its modelled time; both in milliseconds."""

    point: Mapping[str, Any]
    modelled: float
    bound: Part

    @property
    def factor(self) -> float:
        """At least 1."""
        ratio = self.modelled / self.point["value"]
        return max(ratio, 1 / ratio)

    @property
    def group(self) -> str:
        """Generation and kind; single layers of a working-set sweep are convolutions."""
        kind = "conv" if self.point["kind"] == "sram_cliff" else self.point["kind"]
        return f"{self.point['generation'][:3].lower()} {kind}"


def floors(points: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Seconds of a call that a source measured itself, with a program that computes next to nothing, by (source,
    chip): what its system and harness cost, which differs from the usual."""
    return {(point["source"], point["chip"]): point["value"] * MILLI for point in points
            if point.get("kind") == "dispatch_floor" and point.get("unit") == "ms" and "op" in point["params"]}


def modelled(point: Mapping[str, Any], known: Mapping[tuple[str, str], float] | None = None) -> Scored:
    """A point's modelled time, its call as its source measured it where it did (`known`, see `floors`).
    UnknownPointError where it cannot be computed."""
    if point.get("kind") not in KINDS or point.get("unit") != "ms":
        raise UnknownPointError(f"{point.get('kind')} in {point.get('unit')} is no time of a program")
    machine = point["params"].get("machine")
    if machine in LOADED:
        raise UnknownPointError(f"{machine}: {LOADED[machine]}")
    chip = point["chip"].lower()
    try:
        rate = rates(chip, State.RISING if point["params"].get("isolated") else State.FULL)
    except ane.UnsupportedError as error:
        raise UnknownPointError(str(error).splitlines()[0]) from None
    name = point["params"].get("op")
    if name == "conv1x1_slope":
        few, many = (_chain(point, depth) for depth in (8, 40))
        spent = [schedule(plan.operations, rate) for plan in (few, many)]
        return Scored(point, (spent[1].seconds - spent[0].seconds) / 32 / MILLI, spent[1].tasks[-1].bound)
    plan = planned(point)
    spent_once = schedule(plan.operations, rate)
    call = (known or {}).get((point["source"], point["chip"]), dispatch(chip, Route.MACOS).value or 0.0)
    seconds = spent_once.seconds + call
    if _with_copies(point):
        seconds += copies(chip, plan.read, plan.written).value or 0.0
    return Scored(point, seconds / MILLI, max(Part, key=spent_once.decided))


def _chain(point: Mapping[str, Any], depth: int) -> Planned:
    return planned({"params": {**point["params"], "op": "chain_conv1x1", "depth": depth}})


def _with_copies(point: Mapping[str, Any]) -> bool:
    """Whether the measurement includes the host's copies: it says so, or was made through an array interface."""
    if point["params"].get("zero_copy"):
        return False
    return bool(point["params"].get("host_copy")) or point["source"].startswith("ANEForge") or \
        any(text in point.get("notes", "") for text in INCLUDED)


def geomean(factors: Iterable[float]) -> float | None:
    """Geometric mean; None of nothing."""
    logs = [log(factor) for factor in factors]
    return exp(sum(logs) / len(logs)) if logs else None


def scatter(points: Sequence[Scored]) -> float | None:
    """The geometric-mean factor between measurements of one thing and their own geometric mean."""
    same: dict[str, list[float]] = defaultdict(list)
    for each in points:
        what = {k: v for k, v in each.point["params"].items() if k not in ("machine", "iter_ms", "io_fp32", "via",
                                                                            "weight_bytes", "shared_weights")}
        same[json.dumps([each.point["chip"], what], sort_keys=True)].append(each.point["value"])
    factors = []
    for values in same.values():
        middle = geomean(values) or 1.0
        factors += [max(value / middle, middle / value) for value in values if len(values) > 1]
    return geomean(factors)


def fitted(point: Mapping[str, Any]) -> bool:
    """Whether numbers were fitted to the point's source."""
    return any(point["source"].startswith(source) for source in FITTED)


def evaluate(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every figure this prints."""
    found: dict[bool, list[Scored]] = {True: [], False: []}
    left: dict[str, int] = defaultdict(int)
    known = floors(points)
    for point in points:
        try:
            found[fitted(point)].append(modelled(point, known))
        except UnknownPointError as error:
            left[str(error)] += 1
    scored = found[False]
    groups: dict[str, list[Scored]] = defaultdict(list)
    for each in scored:
        groups[each.group].append(each)
    return {
        "geomean_factor": geomean(each.factor for each in scored), "scored": len(scored), "scatter": scatter(scored),
        "groups": {name: {"geomean_factor": geomean(each.factor for each in members), "scored": len(members),
                          "scatter": scatter(members), "aim": AIMS.get(name)}
                   for name, members in sorted(groups.items())},
        "fitted": {"geomean_factor": geomean(each.factor for each in found[True]), "points": len(found[True]),
                   "sources": FITTED},
        "all": {"geomean_factor": geomean(each.factor for each in (*scored, *found[True])),
                "points": len(scored) + len(found[True])},
        "not_scored": dict(left),
        "worst": [{"chip": each.point["chip"], "params": each.point["params"], "measured": each.point["value"],
                   "modelled": each.modelled, "bound": str(each.bound), "source": each.point["source"],
                   "notes": each.point.get("notes", "")}
                  for each in sorted(scored, key=lambda each: -each.factor)[:WORST]],
    }


def default_points() -> Path | None:
    """The data folder's neighbour, where there is one."""
    corpus = os.environ.get("OPENANE_CORPUS")
    path = Path(corpus).parent / "facts" / "timing_points.json" if corpus else None
    return path if path is not None and path.exists() else None


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "-" if value is None else f"{value:.3f}"


def main() -> int:
    """Scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", metavar="FILE", type=Path, default=default_points())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.points is None:
        print("timing: no measurements: name them with --points, or set OPENANE_CORPUS", file=sys.stderr)
        return 0
    result = evaluate(json.loads(options.points.read_text()))
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    print(f"modelled over measured, geometric-mean factor: {number(result['geomean_factor'])} on {result['scored']} "
          f"points not fitted to (aim 1.35; scatter of the measurements {number(result['scatter'])}); "
          f"{number(result['fitted']['geomean_factor'])} on {result['fitted']['points']} fitted to; "
          f"{number(result['all']['geomean_factor'])} on all {result['all']['points']}")
    for name, group in result["groups"].items():
        aim = f"  (aim {group['aim']})" if group["aim"] else ""
        print(f"  {name:<16} {number(group['geomean_factor'])}  of {group['scored']:>3}, scatter "
              f"{number(group['scatter'])}{aim}")
    print("worst:")
    for each in result["worst"]:
        what = ", ".join(f"{k} {v}" for k, v in each["params"].items() if k not in ("iter_ms", "weight_bytes"))
        print(f"  {each['chip']}: {what}: measured {each['measured']:.3f} ms, modelled {each['modelled']:.3f} "
              f"({each['bound']}); {each['notes'] or each['source']}")
    for reason, count in result["not_scored"].items():
        print(f"not scored, {count}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
