"""Tables for functions of whole steps of quantisation that become whole steps again.

Such a function is asked for some hundred numbers alone, and of its results only the nearest step counts: between two of
the 33 knots lie a handful of numbers, and each leaves its result half a step of room on either side. Knots are chosen
among numbers of fp16 near those of least error, one after the other, such that as few results as possible are another
step (Viterbi's algorithm: what a knot costs depends on the one before it alone). Where some are, the sum of
two tables, each of half of the numbers, has twice as many knots, and nearly always makes every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product

import numpy as np

from openane.engine.table import Symmetry, Table, TableKind
from openane.ops.half_bits import from_half, to_half
from openane.ops.halves import half
from openane.ops.lut import INTERVALS, Lut, evaluate
from openane.ops.tables import rounded
from openane.record_classes import dataclass

OFFSETS = np.arange(-12, 13) / 16
"""By how many steps a knot may be another number than the one of least error."""
PREFERENCE = 1e-5
"""What the farthest of these costs, in wrong results at 0."""
MARGIN = 0.05
"""By how much of a step a constant beyond the knots stays clear of the middle between two."""
SHIFTS = (0.0, 0.5, 0.25, 0.75)
"""By how much of an interval the first knot may lie before the numbers."""
STRETCHES = (1.0, 1.01, 1.03, 1.06, 1.02, 1.045, 1.08)
"""How much wider intervals may be than they need: other numbers lie at knots then, and between them."""
ODD_STRETCHES = (1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.065, 1.08, 1.1)
FIRST = 8
"""How many tables are tried before two are."""
FEWER = 0.25
"""Of which share of wrong results one table must be to stand in place of two."""
USUAL = 1 / 4
"""Of the numbers' range, what most of them are nearer to 0 than: a wrong result counts as much as it is frequent."""
SELDOM = 0.1
"""What a wrong result far from 0 counts, beside one at 0."""
APART = 8
"""How many numbers lie between two bends."""
EXPONENTS = (-15, 24)

Placed = tuple[Table, float, float]
"""table(scale * (x + bias)): the table, scale and bias."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Numbers of fp16 in rising order, what becomes of them in steps, the whole steps nearest to that, and what these
    are held between: results may lie beyond. Counted from the middle of the bounds. All float64 [numbers]."""

    x: np.ndarray
    exact: np.ndarray
    steps: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """What a wrong result counts."""
        reach = USUAL * float(np.abs(self.x).max() or 1.0)
        return np.asarray(SELDOM + (1 - SELDOM) * np.exp(-np.square(self.x / reach) / 2))

    def wrong(self, found: np.ndarray) -> np.ndarray:
        """By how many steps each result is off; one in the middle between two steps is."""
        return np.asarray(np.floor(np.abs(np.clip(found, self.low, self.high) - self.steps) + 0.5))

    def share(self, off: np.ndarray) -> float:
        """What share of results is wrong that are off by so many steps."""
        return float(self.weights @ off ** 2 / self.weights.sum())

    def at(self, places: np.ndarray | slice) -> Wanted:
        """Some of the numbers, in arrays of their own."""
        return Wanted(*(np.array(each[places]) for each in (self.x, self.exact, self.steps, self.low, self.high)))

    def less(self, steps: float) -> Wanted:
        """With so many steps less of each."""
        return Wanted(self.x, *(each - steps for each in (self.exact, self.steps, self.low, self.high)))

    @property
    def folded(self) -> Wanted | None:
        """By size alone, what is wanted of numbers above 0 and the negative of what is of those below; None where that
        differs."""
        below = self.x < 0
        sums = np.abs(self.exact + np.interp(-self.x, self.x, self.exact))
        if not below.any() or below.all() or sums[below].max() > 1:
            return None
        sign = np.where(below, -1.0, 1.0)
        low, high = np.where(below, -self.high, self.low), np.where(below, -self.low, self.high)
        made = Wanted(self.x * sign, self.exact * sign, self.steps * sign, low, high)
        return made.at(np.argsort(made.x, kind="stable"))


@dataclass(frozen=True, slots=True)
class StepTables:
    """One table, or two whose results are added, the share of wrong results, frequent numbers first, and by how many
    steps the worst is off."""

    tables: tuple[Lut, ...]
    share: float
    error: float


def step_tables(wanted: Wanted) -> StepTables | None:
    """The table with the fewest wrong results, or where each has some and two have fewer, these; None where numbers are
    too few for one."""
    if len(wanted.x) < 2:
        return None
    tables = _tables(wanted)
    found = _best(wanted, islice(tables, FIRST), None)
    if found.share > 0 and (two := _two(wanted)) is not None and two.share < found.share:
        found = two
    if found.share > 0:
        other = _best(wanted, tables, found)
        found = other if other.share < found.share * FEWER else found
    return found


def _best(wanted: Wanted, tables: Iterable[Placed], found: StepTables | None) -> StepTables:
    """The table with the fewest wrong results, the first without any."""
    domain = (float(wanted.x[0]), float(wanted.x[-1]))
    for table, scale, bias in tables:
        if found is not None and found.share == 0:
            break
        off = wanted.wrong(evaluate(table, scale, bias, wanted.x))
        share, worst = wanted.share(off), int(off.argmax())
        if found is None or share < found.share:
            lut = Lut(table, scale, bias, domain, float(off[worst]), float(np.sqrt(np.mean(off ** 2))),
                      float(wanted.x[worst]))
            found = StepTables((lut,), share, float(off[worst]))
    assert found is not None, "there is a first table"
    return found


def _two(wanted: Wanted) -> StepTables | None:
    """A table of the numbers up to the middle of those whose results differ, and one of how many more steps the others
    have: intervals are half as wide. None where the middle's step is that of an end."""
    inner, _ = _between_constants(wanted, 1)
    place = int(np.searchsorted(wanted.x, (inner.x[0] + inner.x[-1]) / 2))
    if not 0 < place < len(wanted.x) - 1 or not wanted.low[place] < wanted.steps[place] < wanted.high[place]:
        return None
    lower, upper = wanted.at(slice(place + 2)), wanted.at(slice(place - 1, None))
    for name in ("exact", "steps"):
        getattr(lower, name)[-1], getattr(upper, name)[0] = getattr(wanted, name)[[place, place]]
    upper = upper.less(float(wanted.steps[place]))
    parts = [_best(each, islice(_tables(each), FIRST), None) for each in (lower, upper)]
    tables = tuple(lut for part in parts for lut in part.tables)
    made = np.sum([evaluate(lut.table, lut.scale, lut.bias, wanted.x).astype(np.float64) for lut in tables], axis=0)
    off = wanted.wrong(made)
    return StepTables(tables, wanted.share(off), float(off.max()))


def _tables(wanted: Wanted) -> Iterator[Placed]:
    """Tables of all numbers; of a function that is odd, also of their sizes: intervals are half as wide."""
    inner, ends = _between_constants(wanted, 1)
    for bias, scale, exponent in _placements(inner):
        places = (inner.x + bias) * scale
        knots = rounded(_knots(inner, places * 2.0 ** exponent))
        yield Table(half(places[:2].mean()), half(places[-2:].mean()), half(ends[0]), half(ends[1]), knots,
                    exponent=exponent, kind=TableKind.FROM_START), scale, bias
    folded = wanted.folded
    if folded is None:
        return
    inner, (_, last) = _between_constants(folded, 0)
    for stretch in ODD_STRETCHES:
        exponent, scale = _scaled(float(inner.x[-1]) / INTERVALS * stretch)
        places = inner.x * scale
        yield Table(-1.0, half(places[-2:].mean()), 0.0, half(last), rounded(_knots(inner, places * 2.0 ** exponent)),
                    exponent=exponent, kind=TableKind.FROM_START, symmetry=Symmetry.ODD), scale, 0.0


def _between_constants(wanted: Wanted, before: int) -> tuple[Wanted, tuple[float, float]]:
    """What is left where one number stands for the results at the end, and with `before` one for those at the
    beginning, and these two. The last number of the beginning and the first of the end are left, too."""
    least = np.where(wanted.steps <= wanted.low, -np.inf, wanted.steps - 0.5 + MARGIN)
    most = np.where(wanted.steps >= wanted.high, np.inf, wanted.steps + 0.5 - MARGIN)
    count, first = _alike(least, most)
    behind, last = _alike(least[::-1], most[::-1])
    start = (min(count, len(wanted.x) - 1) - 1) * before
    stop = max(len(wanted.x) - behind, start + 1) + 1
    return wanted.at(slice(start, stop)), (first, last)


def _alike(least: np.ndarray, most: np.ndarray) -> tuple[int, float]:
    """For how many numbers from the first on one lies between both bounds, and one that does."""
    lows, highs = np.maximum.accumulate(least), np.minimum.accumulate(most)
    count = int(np.argmin(lows <= highs)) if (lows > highs).any() else len(lows)
    low, high = float(lows[count - 1]), float(highs[count - 1])
    if low == -np.inf or high == np.inf:
        return count, _rounded_down(high) if low == -np.inf else -_rounded_down(-low)
    return count, (low + high) / 2


def _placements(wanted: Wanted) -> Iterator[tuple[float, float, int]]:
    """Bias, scale and exponent of tables whose 32 intervals hold the numbers: from the first one on or a little before
    it, and with knots where the function bends most."""
    first, last = float(wanted.x[0]), float(wanted.x[-1])
    width = (last - first) / INTERVALS
    places = [(first - shift * width * stretch, max(stretch, 1 + shift / INTERVALS) * width)
              for stretch, shift in product(STRETCHES, SHIFTS)]
    for start, width in [*places[:1], *_at_bends(wanted), *places[1:]]:
        exponent, scale = _scaled(width)
        narrowed = 2.0 ** -exponent / width / scale
        bias = -_rounded_down(max(start * narrowed, last - INTERVALS / scale * 2.0 ** -exponent))
        if EXPONENTS[0] <= exponent <= EXPONENTS[1]:
            yield bias, scale, exponent


def _at_bends(wanted: Wanted) -> Iterator[tuple[float, float]]:
    """Where the first of 33 knots may lie and how wide intervals are such that one is at the greatest bend, and another
    one at the greatest of those farther away."""
    first, last = float(wanted.x[0]), float(wanted.x[-1])
    change = np.abs(np.diff(np.diff(wanted.exact) / np.diff(wanted.x)))
    if len(change) < 2:
        return
    pairs = change[:-1] + change[1:]
    bends = []
    for _ in range(2):
        place = int(pairs.argmax())
        behind = change[place + 1] / pairs[place] if pairs[place] else 0.0
        bends.append(float(wanted.x[place + 1] + behind * (wanted.x[place + 2] - wanted.x[place + 1])))
        pairs = np.where(np.abs(np.arange(len(pairs)) - place) > APART, pairs, 0.0)
    before = np.arange(1, INTERVALS)
    widths = np.maximum((bends[0] - first) / before, (last - bends[0]) / (INTERVALS - before))
    width = float(widths.min())
    yield bends[0] - float(before[widths.argmin()]) * width, width
    least, distance = (last - first) / INTERVALS, abs(bends[1] - bends[0])
    for count in range(int(distance / least), 0, -1):
        width = distance / count
        knots = np.ceil((bends[0] - first) / width)
        if bends[0] + (INTERVALS - knots) * width >= last:
            yield bends[0] - float(knots) * width, width
            return


def _scaled(width: float) -> tuple[int, float]:
    """The exponent and the scale of intervals that are no narrower than this."""
    exponent = int(np.floor(-np.log2(width)))
    return exponent, _rounded_down(2.0 ** -exponent / width)


def _rounded_down(number: float) -> float:
    """The largest number of fp16 that is no larger."""
    near = half(number)
    return near if near <= number else float(np.nextafter(np.float16(near), np.float16(-np.inf)))


def _knots(wanted: Wanted, position: np.ndarray) -> np.ndarray:
    """The knots of the fewest wrong results for numbers at these positions among the knots."""
    cell = np.clip(position.astype(int), 0, INTERVALS - 1)
    fraction = (position - cell).astype(np.float32)
    basis = np.zeros((len(position), INTERVALS + 1))
    basis[np.arange(len(position)), cell], basis[np.arange(len(position)), cell + 1] = 1 - fraction, fraction
    near = np.linalg.lstsq(basis, wanted.exact, rcond=1e-6)[0]
    choices = from_half(to_half((near[:, None] + OFFSETS).astype(np.float32)))
    preference, weights = PREFERENCE * np.abs(OFFSETS), wanted.weights
    costs, before = np.zeros(len(OFFSETS)), []
    for place in range(INTERVALS):
        costs = costs[:, None] + preference
        inside = np.flatnonzero(cell == place)
        if len(inside):
            left, right = choices[place][:, None, None], choices[place + 1][None, :, None]
            made = from_half(to_half(left + fraction[inside] * (right - left)))
            costs = costs + wanted.at(inside).wrong(made) ** 2 @ weights[inside]
        before.append(costs.argmin(0))
        costs = costs.min(0)
    chosen = [int(costs.argmin())]
    for table in reversed(before):
        chosen.append(int(table[chosen[-1]]))
    return np.asarray(choices[np.arange(INTERVALS + 1), chosen[::-1]], np.float64)
