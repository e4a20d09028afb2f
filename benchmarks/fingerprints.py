"""Published error fingerprints of real chips against the simulator: those exact arithmetic explains, and the open ones.

The explained ones (matrix products and convolutions) are computed from the rule alone; they need $OPENANE_CORPUS. The
open ones (reductions, norms, softmax, tables, attention, some probes of single values) are compiled for the generation
of each chip they were published of and run in its exact arithmetic; a line shows the published value, ours, and how
many digits agree. tests/open_fingerprints.txt lists what no rule explains:

    python benchmarks/fingerprints.py [--all] [--write [--add]]     all sizes, not only small ones; rewrite the list

--write takes out what is explained now, renews what was computed and keeps the rest. It adds nothing without --add.

Recipes and values: public records of sbryngelson/ANEForge. One generator is restarted for every operation and continued
over its sizes; chips with equal digits are classes (`CLASSES`).
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from recipes import operations
from recipes.operations import COLUMNS, Array, Single, value
from recipes.published import FULL, PUBLISHED_ROWS, QUICK, generations_of

from openane.simulator.arithmetic import direct_conv3x3, matrix_product, winograd_conv3x3

OPEN = Path(__file__).parents[1] / "tests" / "open_fingerprints.txt"
SLOWEST_LEVEL = 2
EXPLAINED = 9.0
"""Digits from which a value counts as explained: reference norms differ by that much between machines."""
Key = tuple[str, str, str, str]
"""What identifies a case: operation, chips, size, the generation its program is compiled for."""
SMALL: Mapping[str, int] = {"reduce_sum": 1024, "layer_norm": 1024}
OTHERWISE = 256
"""Rows up to which cases are computed without --all, by operation, and of the others."""
HEADER = """\
# Error fingerprints and probes of real chips that no rule of the simulator explains: operation, chips, the generations
# of those chips, size, published, ours, digits that agree.
# Ours are of programs compiled for each of the generations, in its exact arithmetic; generations share a line where
# theirs are equal. A are M1 and M2 Max, B are M4, M5 and M6.
# Written by benchmarks/fingerprints.py --all --write; it may only shrink.
# Worst errors are those of tables over -10..10 against float64. Ours of gelu, atan, sin and cos are smaller than those
# published of Apple's: openane makes tables of its own, and the published values need Apple's (of atan, sin and cos
# 0.04 to 0.12 near seams; the lower end stands here).
"""


@dataclass(frozen=True, slots=True)
class Open:
    """One published value, and ours of a program for one or, where they share a line, several generations (with commas
    between)."""

    name: str
    chips: str
    generation: str
    size: str
    published: float
    ours: float
    decimals: int | None = None

    @property
    def digits(self) -> float:
        """How many decimal digits agree; all, where the published value is ours rounded to its `decimals`."""
        if self.ours == self.published or (self.decimals is not None
                                           and round(self.ours, self.decimals) == self.published):
            return 15.9
        difference = abs(self.ours / self.published - 1) if self.published else math.inf
        return max(0.0, -math.log10(difference)) if math.isfinite(difference) else 0.0

    @property
    def key(self) -> Key:
        """What identifies it."""
        return self.name, self.chips, self.size, self.generation

    def __str__(self) -> str:
        return (f"{self.name:11} {self.chips:4} {self.generation:19} {self.size:18} {self.published!r:24} "
                f"{self.ours!r:24} {math.floor(self.digits * 10) / 10:4.1f}")


ROWS: Mapping[str, Callable[[Array, str], float]] = {
    "reduce_sum": operations.reduce_sum, "relu": operations.relu, "gelu": operations.gelu,
    "gelu-apple": operations.gelu_of_apple, "softmax": operations.softmax, "layer_norm": operations.layer_norm}
SAME_AS = {"gelu-apple": "gelu"}
"""Cases with the published values of others: ours are made with Apple's table."""
BLOCKS: Mapping[str, tuple[str, Callable[[str], float], Mapping[str, float]]] = {
    "layer_norm": ("197x768", operations.layer_norm_block, {"M1": 0.0006666825403169065, "M5": 0.0006721924948683699}),
    "rms_norm": ("197x768", operations.rms_norm, {"M1": 0.0005579519158440576, "M5": 0.0005661251602187821}),
    "group_norm": ("256x64x64", operations.group_norm, {"M1": 0.0007409982149321947, "M5": 0.0007410157930155374}),
    "attention": ("197x768", lambda target: operations.attention(197, target),
                  {"M1": 0.0015743203944934068, "M5": 0.0016295418085633957}),
    "attention ": ("512x768", lambda target: operations.attention(512, target),
                   {"M1": 0.002349398736464838, "M5": 0.0023463584022740125}),
}


def wave(name: str, target: str) -> float:
    """The worst absolute error of a function of one variable over -10..10."""
    x = np.linspace(-10, 10, 4001).astype(np.float16)
    settings = {"mode": "EXACT"} if name == "gelu" else {}
    made = operations.engine(lambda b, x: b.single(name, x=x, **settings), target, x=x[None])[0]
    return float(np.abs(made - [FUNCTIONS[name](float(each)) for each in x]).max())


FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))), "atan": math.atan, "sin": math.sin, "cos": math.cos}
SUMS: Mapping[str, Callable[[Array, str], float]] = {
    "linear": operations.sum_by_linear, "matmul": operations.sum_by_matmul,
    "reduce_sum": operations.sum_by_reduction, "mul+reduce": operations.sum_of_products}
"""Ways a program can add a row: which one the published probes took is not known."""
LEFT: Mapping[int, float] = {1024: 16.0, 3000: 16.0, 4090: 16.0, 4096: 4.0, 8000: 4.0, 16000: 4.0, 30000: 4.0}
"""What is left of sixteen triples b, -b, 1."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A single published value: of what, on which chips, where, and ours for a generation."""

    name: str
    chips: str
    where: str
    published: float
    ours: Callable[[str], float]
    decimals: int | None = None


def _sums() -> Iterator[Probe]:
    for name, add in SUMS.items():
        row = np.float16([4096] + [1] * 1024)
        yield Probe(name, "M1", "4096+1024*1", 5116.0, partial(add, row))
        for b, left in LEFT.items():
            yield Probe(name, "M1", f"16*({b},-b,1)", left, partial(add, np.tile([b, -b, 1], 16).astype(np.float16)))


PROBES: tuple[Probe, ...] = (
    Probe("log", "M1", "x=0", -45440.0, lambda target: value("log", 0, target, epsilon=np.float16(0))),
    Probe("gelu", "M1", "x=0", -0.000543, lambda target: value("gelu", 0, target, mode="EXACT"), 6),
    Probe("silu", "M1", "x=0", -0.001259, lambda target: value("silu", 0, target), 6),
    Probe("softplus", "M1", "1/x=0", 0.0, lambda target: value("softplus", np.inf, target)),
    Probe("reduce_sum", "M1", "2049-ones", 2050.0,
          lambda target: value("reduce_sum", 1, target, 2049, axes=np.int32([-1]), keep_dims=True)),
    Probe("linear", "M5", "subnormal", 16 * 2.0**-24,
          lambda target: value("linear", 2.0**-24, target, 16, weight=np.ones((1, 16), np.float16))),
    *_sums(),
    *(Probe(name, "M1", "worst", published, partial(wave, name), len(str(published)) - 2) for name, published in (
        ("gelu", 0.0059), ("atan", 0.04), ("sin", 0.04), ("cos", 0.04))),
)


def small(name: str) -> int:
    """Rows up to which an operation's cases are computed without --all."""
    return SMALL.get(name, OTHERWISE)


def everything() -> Iterator[tuple[Key, float]]:
    """Key and published value of every case there is, computed or not."""
    for name, chips, size, published in _published():
        for generation in generations_of(chips):
            yield (name, chips, size, generation), published


def _published() -> Iterator[tuple[str, str, str, float]]:
    """Name, chips, size and value."""
    for name in ROWS:
        for (operation, chips, sizes), values in PUBLISHED_ROWS.items():
            if operation == SAME_AS.get(name, name):
                for rows, published in zip(sizes, values, strict=True):
                    yield name, chips, _label(sizes, rows), published
    for name, (size, _, known) in BLOCKS.items():
        for chips, published in known.items():
            yield name.strip(), chips, size, published
    for probe in PROBES:
        yield probe.name, probe.chips, probe.where, probe.published


def _label(sizes: tuple[int, ...], rows: int) -> str:
    return f"{'quick' if sizes is QUICK else 'full'}-{rows}"


def cases(every: bool = False) -> Iterator[Open]:
    """Every published value with ours of each generation it belongs to, those of many rows only where `every` is
    wanted."""
    for name in ROWS:
        for sizes in (QUICK, FULL):
            yield from _row_cases(name, sizes, every)
    for name, (size, made, values) in BLOCKS.items():
        for chips, published in values.items():
            for generation in generations_of(chips):
                yield Open(name.strip(), chips, generation, size, published, made(generation))
    for probe in PROBES:
        for generation in generations_of(probe.chips):
            yield Open(probe.name, probe.chips, generation, probe.where, probe.published, probe.ours(generation),
                       probe.decimals)


def _row_cases(name: str, sizes: tuple[int, ...], every: bool) -> Iterator[Open]:
    """Those of one operation over one list of sizes."""
    compute, rng = ROWS[name], np.random.default_rng(11)
    published = {chips: values for (operation, chips, known), values in PUBLISHED_ROWS.items()
                 if operation == SAME_AS.get(name, name) and known is sizes}
    for place, rows in enumerate(size for size in sizes if every or size <= small(name)):
        x = rng.standard_normal((rows, COLUMNS)).astype(Single)
        ours = {generation: compute(x, generation)
                for generation in dict.fromkeys(each for chips in published for each in generations_of(chips))}
        for chips, values in published.items():
            yield from (Open(name, chips, generation, _label(sizes, rows), values[place], ours[generation])
                        for generation in generations_of(chips) if not math.isnan(ours[generation]))


def merged(found: Iterable[Open], known: Mapping[Key, Open], add: bool = False) -> dict[Key, Open]:
    """The list after a run: what was computed and is explained now goes, what is not stays with its new value, and
    what was not computed stays. ValueError for a case that is not listed, unless it may be added."""
    kept = dict(known)
    for case in found:
        if case.digits >= EXPLAINED:
            kept.pop(case.key, None)
        elif case.key in known or add:
            kept[case.key] = case
        else:
            raise ValueError(f"{' '.join(case.key)} is explained by nothing and not listed; the list may only shrink "
                             "(--add adds it all the same)")
    return kept


def listed(path: Path = OPEN) -> dict[Key, Open]:
    """The open cases on record, by generation."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    found = [Open(name, chips, generation, size, float(published), float(ours))
             for name, chips, generations, size, published, ours, _ in lines for generation in generations.split(",")]
    return {each.key: each for each in found}


def lines(kept: Mapping[Key, Open]) -> list[Open]:
    """What is listed, in the order of `everything`: generations whose values are equal in one line."""
    together: dict[tuple[str, str, str, float], list[Open]] = {}
    for key, _ in everything():
        if key in kept:
            case = kept[key]
            together.setdefault((case.name, case.chips, case.size, case.ours), []).append(case)
    return [replace(each[0], generation=",".join(case.generation for case in each)) for each in together.values()]


def explained() -> bool:
    """Prints the cases the rule explains; whether all hold."""
    path = Path(os.environ.get("OPENANE_CORPUS", "")) / "silicon" / "fingerprints.py"
    if not path.is_file():
        print("fingerprints: skipped, $OPENANE_CORPUS holds no silicon/fingerprints.py")
        return True
    spec = importlib.util.spec_from_file_location("recipes", path)
    assert spec is not None
    assert spec.loader is not None
    recipes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipes)
    start = time.perf_counter()
    worst = recipes.check(matrix_product, direct_conv3x3, winograd_conv3x3, level=SLOWEST_LEVEL)
    print(f"fingerprints: worst relative difference {worst:.1e} over {len(recipes.CASES)} cases "
          f"in {time.perf_counter() - start:.0f} s")
    return bool(worst < 1e-12)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--all", action="store_true", help="all sizes of the open cases, which takes minutes")
    parser.add_argument("--write", action="store_true", help="write the open cases to the list of the tests")
    parser.add_argument("--add", action="store_true", help="with --write: also cases that are not listed")
    options = parser.parse_args()
    held = options.write or explained()
    print("\noperation   chip generation          size               published                ours"
          "                     digits")
    found = []
    for case in cases(options.all):
        print(case, "explained" if case.digits >= EXPLAINED else "", flush=True)
        found.append(case)
    if options.write:
        try:
            kept = merged(found, listed(), options.add)
        except ValueError as error:
            print(f"fingerprints: {error}", file=sys.stderr)
            return 1
        OPEN.write_text(HEADER + "".join(f"{line}\n" for line in lines(kept)))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
