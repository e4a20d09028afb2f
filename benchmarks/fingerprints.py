"""Published error fingerprints of real chips against the simulator: those exact arithmetic explains, and the open ones.

The explained ones (matrix products and convolutions) are computed from the rule alone; they need $OPENANE_CORPUS. The
open ones (reductions, norms, softmax, tables, attention, some probes of single values) are compiled for H13 and run in
exact arithmetic; a line shows the published value, ours, and how many digits agree. tests/open_fingerprints.txt lists
what no rule explains:

    python benchmarks/fingerprints.py [--all] [--write [--add]]     all sizes, not only small ones; rewrite the list

--write takes out what is explained now, renews what was computed and keeps the rest. It adds nothing without --add.

Recipes and values: public records of sbryngelson/ANEForge. One generator is restarted for every operation and continued
over its sizes; classes of chips with equal digits are A (M1, M2 Max) and B (M4, M5, M6); `all` are both.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from recipes import operations
from recipes.operations import COLUMNS, Array, Single, value

from openane.simulator.arithmetic import direct_conv3x3, matrix_product, winograd_conv3x3

OPEN = Path(__file__).parents[1] / "tests" / "open_fingerprints.txt"
SLOWEST_LEVEL = 2
EXPLAINED = 9.0
"""Digits from which a value counts as explained: reference norms differ by that much between machines."""
Key = tuple[str, str, str]
"""What identifies a case: operation, chips, size."""
QUICK, FULL = (256, 2048, 8192), (64, 256, 1024, 2048, 4096, 8192, 16384)
SMALL: Mapping[str, int] = {"reduce_sum": 2048, "layer_norm": 2048}
OTHERWISE = 256
"""Rows up to which cases are computed without --all, by operation, and of the others."""
HEADER = """\
# Error fingerprints and probes of real chips that no rule of the simulator explains: operation, chips, size, published,
# ours, digits that agree.
# Programs compiled for h13, exact arithmetic. Written by benchmarks/fingerprints.py --all --write; it may only shrink.
# Worst errors are those of tables over -10..10 against float64. Ours of gelu, atan, sin and cos are smaller than those
# published of Apple's: openane makes tables of its own, and the published values need Apple's (of atan, sin and cos
# 0.04 to 0.12 near seams; the lower end stands here).
"""


@dataclass(frozen=True, slots=True)
class Open:
    """One published value and ours."""

    name: str
    chips: str
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
        return self.name, self.chips, self.size

    def __str__(self) -> str:
        return (f"{self.name:11} {self.chips:4} {self.size:18} {self.published!r:24} {self.ours!r:24} "
                f"{math.floor(self.digits * 10) / 10:4.1f}")


ROWS: Mapping[str, Callable[[Array], float]] = {
    "reduce_sum": operations.reduce_sum, "relu": operations.relu, "gelu": operations.gelu,
    "gelu-apple": operations.gelu_of_apple, "softmax": operations.softmax, "layer_norm": operations.layer_norm}
SAME_AS = {"gelu-apple": "gelu"}
"""Cases with the published values of others: ours are made with Apple's table."""
PUBLISHED_ROWS: Mapping[tuple[str, str, tuple[int, ...]], tuple[float, ...]] = {
    ("reduce_sum", "A", QUICK): (0.0007224220967624156, 0.0008092132072331672, 0.0008128390012191247),
    ("reduce_sum", "B", QUICK): (0.0008079179874948665, 0.0008071717711200484, 0.0007975342563257649),
    ("reduce_sum", "B", FULL): (
        0.0007592270061840784, 0.0008192885359946541, 0.0008264193150660284, 0.0008068878926405314,
        0.0007985912455092107, 0.0007879114968265977, 0.0007931689389407068),
    ("relu", "all", QUICK): (0.00020780100009547, 0.00020761950117414, 0.00020772223594449),
    ("relu", "B", FULL): (
        0.00020866909419798, 0.00020756053873747, 0.00020754630129932, 0.00020763593872697, 0.00020774037070068,
        0.00020770198411711, 0.00020771373912650),
    ("gelu", "all", QUICK): (0.0023991258399849, 0.0024010734360187, 0.0024023332541354),
    ("gelu", "B", FULL): (
        0.0024077288650788567, 0.0023955107862632993, 0.0024012110017771985, 0.002399864679010996,
        0.0024024174412155303, 0.0024034491677650187, 0.0024015598368060226),
    ("softmax", "A", QUICK): (0.0010240666804474572, 0.0010582602743854563, 0.0010575844059696365),
    ("softmax", "B", QUICK): (0.0010256527550328975, 0.0010581700214666815, 0.0010593247864413157),
    ("softmax", "B", FULL): (
        0.0010453731724024647, 0.0010302605562656905, 0.001049640177421753, 0.0010617395002181834,
        0.0010568058469969921, 0.0010626917247173891, 0.0010575469948676255),
    ("layer_norm", "A", QUICK): (0.0006599372443371269, 0.0006641650399336161, 0.0006669555299869831),
    ("layer_norm", "B", QUICK): (0.000663225738513468, 0.0006625734839700961, 0.0006665678232216892),
    ("layer_norm", "B", FULL): (
        0.0006597042490412499, 0.0006712269503326697, 0.0006617711740545887, 0.0006707525552265332,
        0.0006665799121390861, 0.0006627977301943962, 0.0006661524736704106),
}
BLOCKS: Mapping[str, tuple[str, Callable[[], float], Mapping[str, float]]] = {
    "layer_norm": ("197x768", operations.layer_norm_block, {"M1": 0.0006666825403169065, "M5": 0.0006721924948683699}),
    "rms_norm": ("197x768", operations.rms_norm, {"M1": 0.0005579519158440576, "M5": 0.0005661251602187821}),
    "group_norm": ("256x64x64", operations.group_norm, {"M1": 0.0007409982149321947, "M5": 0.0007410157930155374}),
    "attention": ("197x768", lambda: operations.attention(197),
                  {"M1": 0.0015743203944934068, "M5": 0.0016295418085633957}),
    "attention ": ("512x768", lambda: operations.attention(512),
                   {"M1": 0.002349398736464838, "M5": 0.0023463584022740125}),
}


def wave(name: str) -> float:
    """The worst absolute error of a function of one variable over -10..10."""
    x = np.linspace(-10, 10, 4001).astype(np.float16)
    settings = {"mode": "EXACT"} if name == "gelu" else {}
    made = operations.engine(lambda b, x: b.single(name, x=x, **settings), x=x[None])[0]
    return float(np.abs(made - [FUNCTIONS[name](float(each)) for each in x]).max())


FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))), "atan": math.atan, "sin": math.sin, "cos": math.cos}
SUMS: Mapping[str, Callable[[Array], float]] = {
    "linear": operations.sum_by_linear, "matmul": operations.sum_by_matmul,
    "reduce_sum": operations.sum_by_reduction, "mul+reduce": operations.sum_of_products}
"""Ways a program can add a row: which one the published probes took is not known."""
LEFT: Mapping[int, float] = {1024: 16.0, 3000: 16.0, 4090: 16.0, 4096: 4.0, 8000: 4.0, 16000: 4.0, 30000: 4.0}
"""What is left of sixteen triples b, -b, 1."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A single published value: of what, on which chips, where, and ours."""

    name: str
    chips: str
    where: str
    published: float
    ours: Callable[[], float]
    decimals: int | None = None


def _sums() -> Iterator[Probe]:
    for name, add in SUMS.items():
        row = np.float16([4096] + [1] * 1024)
        yield Probe(name, "M1", "4096+1024*1", 5116.0, partial(add, row))
        for b, left in LEFT.items():
            yield Probe(name, "M1", f"16*({b},-b,1)", left, partial(add, np.tile([b, -b, 1], 16).astype(np.float16)))


PROBES: tuple[Probe, ...] = (
    Probe("log", "M1", "x=0", -45440.0, lambda: value("log", 0, epsilon=np.float16(0))),
    Probe("gelu", "M1", "x=0", -0.000543, lambda: value("gelu", 0, mode="EXACT"), 6),
    Probe("silu", "M1", "x=0", -0.001259, lambda: value("silu", 0), 6),
    Probe("softplus", "M1", "1/x=0", 0.0, lambda: value("softplus", np.inf)),
    Probe("reduce_sum", "M1", "2049-ones", 2050.0,
          lambda: value("reduce_sum", 1, 2049, axes=np.int32([-1]), keep_dims=True)),
    Probe("linear", "M5", "subnormal", 16 * 2.0**-24,
          lambda: value("linear", 2.0**-24, 16, weight=np.ones((1, 16), np.float16))),
    *_sums(),
    *(Probe(name, "M1", "worst", published, partial(wave, name), len(str(published)) - 2) for name, published in (
        ("gelu", 0.0059), ("atan", 0.04), ("sin", 0.04), ("cos", 0.04))),
)


def small(name: str) -> int:
    """Rows up to which an operation's cases are computed without --all."""
    return SMALL.get(name, OTHERWISE)


def everything() -> Iterator[tuple[str, str, str, float]]:
    """Name, chips, size and published value of every case there is, computed or not."""
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
    """Every published value with ours, those of many rows only where `every` is wanted."""
    for name, compute in ROWS.items():
        for sizes in (QUICK, FULL):
            rng = np.random.default_rng(11)
            for place, rows in enumerate(size for size in sizes if every or size <= small(name)):
                ours = compute(rng.standard_normal((rows, COLUMNS)).astype(Single))
                for (operation, chips, known), values in PUBLISHED_ROWS.items():
                    if operation == SAME_AS.get(name, name) and known is sizes and not math.isnan(ours):
                        yield Open(name, chips, _label(sizes, rows), values[place], ours)
    for name, (size, made, values) in BLOCKS.items():
        ours = made()
        for chips, published in values.items():
            yield Open(name.strip(), chips, size, published, ours)
    for probe in PROBES:
        yield Open(probe.name, probe.chips, probe.where, probe.published, probe.ours(), probe.decimals)


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
    """The open cases on record."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    found = [Open(name, chips, size, float(published), float(ours)) for name, chips, size, published, ours, _ in lines]
    return {each.key: each for each in found}


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
    print("\noperation   chip size               published                ours                     digits")
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
        order = {(name, chips, size): place for place, (name, chips, size, _) in enumerate(everything())}
        OPEN.write_text(HEADER + "".join(f"{kept[key]}\n" for key in sorted(kept, key=order.__getitem__)))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
