"""Models on every generation that is compiled for: what they become there, and whether they compute what H13 computes.

    python benchmarks/generations.py [NAME]... [--target GENERATION]... [--arithmetic MODE] [--json]

A NAME is a group, a case, or has wildcards: `networks` are those of models.py, with one input each; `blocks` are single
blocks of networks; `training` are steps by every route of the weights; `language` are language models that read a
prompt and continue it; `graphs` are the small graphs of guard.py over every operation. Without names all but `graphs`;
the larger language models are chosen by their full names alone. Every case is compiled strict for each generation, its
programs are verified and run on the simulator.

H13's column has the tasks of all programs, and the least cosine of an output to the same in float32 from elsewhere:
onnxruntime's for networks, else the operations' references on the host. The other columns say `equal` where all bits
of the outputs are H13's; else the largest difference, over H13's largest number, and the least cosine to H13's output.
Bits must be equal wherever the tasks are as many, and 3x3 convolutions (direct up to H16) and products of pairs (by one
task up to H17) are computed in the same form. The cosine to float32 must be 0.999, 0.9 with weights of 4 bits, and that
to H13's output 0.999. What falls short has a `!` and a line that says why. Convolutions of many products are computed
directly for every generation, unless `--arithmetic exact` is given, which takes longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from guarded.groups import wanted
from per_generation.case import LEAST_COSINE, Arrays, Case, WatchedDevice

from openane.chips import compiled_generations, get_chip
from openane.errors import AneError
from openane.simulator.arithmetic import Mode
from openane.wording import plural

GROUPS = ("networks", "blocks", "training", "language", "graphs")
ALONE = ("networks",)
"""Groups whose cases need so much memory that each has a process of its own."""
DEFAULT = ("networks", "blocks", "training", "language")
LARGE = ("language/stories110m", "language/qwen2.5-0.5b")
"""Cases that take minutes: left out unless they are named in full."""
WIDTH = 19


@dataclass(frozen=True, slots=True)
class Cell:
    """One case on one generation. `cosine` is to float32, None where nothing is said about it; `difference`, over the
    largest number, and `likeness`, a cosine, are to the first generation's outputs; `lacks` says what falls short."""

    case: str
    target: str
    programs: int = 0
    tasks: int = 0
    cosine: float | None = None
    equal: bool = False
    difference: float = 0.0
    likeness: float = 1.0
    seconds: float = 0.0
    lacks: str = ""


def names() -> list[str]:
    """Every case, as group/name."""
    return [f"{group}/{name}" for group in GROUPS for name in import_module(f"per_generation.{group}").cases()]


def chosen(patterns: Sequence[str]) -> list[str]:
    """The cases that are asked for."""
    return [name for name in names() if name in patterns
            or (name not in LARGE and wanted(name, patterns or DEFAULT))]


def cells(name: str, targets: Sequence[str], arithmetic: str) -> Iterator[Cell]:
    """One case on one generation after the other; the first is what the others are compared with."""
    group, _, rest = name.partition("/")
    case: Case = import_module(f"per_generation.{group}").cases()[rest]()
    expected = case.expected() if case.least is not None else {}
    first: tuple[Cell, Arrays] | None = None
    for target in targets:
        progress(f"{name} {target}")
        with WatchedDevice(arithmetic) as device:
            start = time.perf_counter()
            try:
                outputs = case.outputs(target, device)
            except AneError as error:
                yield Cell(name, target, lacks=f"refused: {type(error).__name__}: {' '.join(str(error).split())}")
                continue
            made = Cell(name, target, device.programs, device.tasks, nearness(outputs, expected),
                        seconds=time.perf_counter() - start)
        first = first or (made, outputs)
        yield judged(made, outputs, first, device.broken, case.least)


def judged(made: Cell, outputs: Arrays, first: tuple[Cell, Arrays], broken: Sequence[str], least: float | None
           ) -> Cell:
    """A cell compared with the first one."""
    before, wanted_outputs = first
    equal = all(np.array_equal(outputs[name], array) for name, array in wanted_outputs.items())
    lacks = list(broken[:3])
    if least is not None and not (made.cosine or 0) >= least:
        lacks.append(f"the cosine to float32 is {made.cosine}, not {least:g}")
    if not equal and made.tasks == before.tasks and same_form(made.target, before.target):
        lacks.append(f"bits are not those of {before.target}")
    likeness = 1.0 if equal else nearness(outputs, wanted_outputs) or 0.0
    if not likeness >= LEAST_COSINE:
        lacks.append(f"the cosine to {before.target} is {likeness}, not {LEAST_COSINE:g}")
    return Cell(made.case, made.target, made.programs, made.tasks, made.cosine, equal,
                max(largest_difference(outputs[name], array) for name, array in wanted_outputs.items()), likeness,
                made.seconds, "; ".join(lacks))


def same_form(first: str, second: str) -> bool:
    """Whether two generations compute 3x3 convolutions and products of pairs in the same form: all else is alike."""
    one, other = get_chip(first), get_chip(second)
    return (one.arithmetic.winograd, one.limits.pairs) == (other.arithmetic.winograd, other.limits.pairs)


def nearness(outputs: Arrays, expected: Arrays) -> float | None:
    """The least cosine of two outputs of one name; None where there are none. Infinite numbers count as the largest
    that fp16 has."""
    found = [cosine(outputs[name], expected[name]) for name in expected if name in outputs]
    return min(found) if found else None


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Of two arrays of one size; 1 where both are zero or empty."""
    one, other = (np.nan_to_num(array.astype(np.float64).ravel(), posinf=65504, neginf=-65504)
                  for array in (first, second))
    product = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / product if product else float(np.array_equal(one, other))


def largest_difference(found: np.ndarray, wanted_array: np.ndarray) -> float:
    """Over the largest finite number; infinite where an infinity is on one side alone."""
    one, other = found.astype(np.float64).ravel(), wanted_array.astype(np.float64).ravel()
    differ = one != other
    if not differ.any():
        return 0.0
    size = np.abs(other[np.isfinite(other)]).max(initial=0.0)
    return float(np.abs(one[differ] - other[differ]).max() / (size or 1.0))


def progress(text: str) -> None:
    """What is under way, on a terminal; empty to wipe it out."""
    if sys.stderr.isatty():
        print(f"\r{text[:78]:<78}\r", end="", file=sys.stderr, flush=True)


def measured(cases: Sequence[str], targets: Sequence[str], arithmetic: str) -> Iterator[list[Cell]]:
    """The cells of each case, from processes of their own: memory goes back between networks."""
    groups = [[name] for name in cases if name.startswith(ALONE)]
    groups += [found for group in GROUPS if group not in ALONE
               and (found := [name for name in cases if name.startswith(f"{group}/")])]
    for group in groups:
        command = [sys.executable, __file__, "--measure", "--arithmetic", arithmetic, *group]
        command += [word for target in targets for word in ("--target", target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            done = 0
            for line in process.stdout:
                yield [Cell(**cell) for cell in json.loads(line)]
                done += 1
        if process.returncode:
            yield [Cell(group[done], targets[0], lacks=f"the process ended with {process.returncode}")]


def row(found: Sequence[Cell]) -> str:
    """A line for a case."""
    return f"{found[0].case:<34}" + "".join(f"{text(cell, found[0]):<{WIDTH}}" for cell in found)


def text(cell: Cell, first: Cell) -> str:
    """What the table says of a cell."""
    mark = "!" if cell.lacks else ""
    if cell.lacks.startswith(("refused", "the process")):
        return mark + cell.lacks.partition(":")[0]
    if cell is first:
        return f"{mark}{cell.tasks:>5} " + ("" if cell.cosine is None else f"{cell.cosine:.6f}")
    tasks = "" if cell.tasks == first.tasks else f"{cell.tasks} "
    return f"{mark}{tasks}" + ("equal" if cell.equal else f"{cell.difference:.0e} {cell.likeness:.6f}")


def summary(found: Sequence[Cell], targets: Sequence[str]) -> Iterator[str]:
    """A line for each generation."""
    for target in targets:
        own = [cell for cell in found if cell.target == target]
        equal, lacking = sum(cell.equal for cell in own), sum(bool(cell.lacks) for cell in own)
        others = [cell for cell in own if not cell.equal and not cell.lacks]
        line = f"{target}: {plural(len(own), 'case')}, {equal} with the bits of {targets[0]}"
        if others:
            line += (f", {len(others)} others within {max(cell.difference for cell in others):.1e} of the largest "
                     f"number, cosine at least {min(cell.likeness for cell in others):.6f}")
        yield line + (f", {lacking} FALL SHORT" if lacking else "")


def main(arguments: Sequence[str]) -> int:
    """See the module. 1 when something falls short, 2 for unknown names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a group, a case, or a pattern")
    parser.add_argument("--target", action="append", choices=compiled_generations(), metavar="GENERATION",
                        help="only this one beside the first; may be given again")
    parser.add_argument("--arithmetic", choices=[str(mode) for mode in Mode], default="auto", help="the simulator's")
    parser.add_argument("--json", action="store_true", help="all cells as JSON")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    first, *later = compiled_generations()
    targets = [first, *(name for name in later if name in (options.target or later))]
    warnings.simplefilter("ignore", RuntimeWarning)
    if options.measure:
        for name in options.names:
            print(json.dumps([asdict(cell) for cell in cells(name, targets, options.arithmetic)]), flush=True)
        return 0
    cases = chosen(options.names)
    if not cases:
        shown = ", ".join(name for name in names() if wanted(name, DEFAULT))
        print(f"no case is called {' or '.join(options.names)}; there are {shown}, and graphs", file=sys.stderr)
        return 2
    found: list[Cell] = []
    if not options.json:
        print(f"{'':<34}" + "".join(f"{target:<{WIDTH}}" for target in targets))
    for each in measured(cases, targets, options.arithmetic):
        found += each
        progress("")
        if not options.json:
            print("\n    ".join([row(each), *(f"{cell.target}: {cell.lacks}" for cell in each if cell.lacks)]),
                  flush=True)
    print(json.dumps([asdict(cell) for cell in found], indent=1) if options.json else
          "\n".join(summary(found, targets)))
    return int(any(cell.lacks for cell in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
