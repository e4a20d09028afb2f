"""Sums of products of a tensor x, its mean, its mean square and reciprocal roots of these: what a norm that is written
out in other operations consists of, however it is written.

`Moments` calculates with such sums. Every way of writing a variance comes to mean square less squared mean, every way
of writing a norm to the same few terms. Coefficients are numbers, or arrays that broadcast to x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

import numpy as np

from openane.record_classes import dataclass

CLOSE = 2.0 ** -11
"""How far, relatively, two coefficients may differ that fp16 has rounded."""
SAME = 1e-3
SMALLEST = 2.0 ** -25
"""How far a count may be from what fp16 holds of its reciprocal: relatively, and where that is near 0 absolutely."""
SMALL = 1e-4
"""A standard deviation or length that is kept above it, or above less, is only kept from dividing by zero."""
LEAST = 2.0 ** -24
"""The smallest number fp16 has: a variance or mean square that is kept above it is only kept from being 0."""
_ZERO, _UNIT = np.zeros(()), np.ones(())
HIGHEST = 4
"""Highest power of x that occurs on the way to a norm."""


class MomentProduct(NamedTuple):
    """The powers of a product: of x, its mean, its mean square, and of the reciprocal root of a spread."""

    x: int = 0
    mean: int = 0
    square: int = 0
    spread: int = -1
    root: int = 0


ONE, X, MEAN, SQUARE = MomentProduct(), MomentProduct(x=1), MomentProduct(mean=1), MomentProduct(square=1)
Terms = Mapping[MomentProduct, np.ndarray]
"""Coefficients by what they multiply."""


@dataclass(frozen=True, slots=True)
class Spread:
    """gain * v + epsilon, v the variance of x, or its mean square where it is not `centred`."""

    centred: bool
    gain: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Calculates for an x of `count` elements to a mean, those along `axes`. None: not a sum of such terms."""

    axes: tuple[int, ...]
    count: int
    spreads: list[Spread] = field(default_factory=list)

    def times(self, first: Terms, second: Terms) -> Terms | None:
        """The product."""
        found: dict[MomentProduct, np.ndarray] = {}
        for one, gain in first.items():
            for other, factor in second.items():
                term = _product(one, other)
                if term is None:
                    return None
                found[term] = found.get(term, _ZERO) + self._rounded(gain, factor, first, second)
        return self._without_squares(_kept(found))

    def _without_squares(self, terms: Terms) -> Terms | None:
        """The terms with the spread itself in place of its root's square."""
        result: Terms = {term: gain for term, gain in terms.items() if term.root > -2}
        for term, gain in terms.items():
            if term.root > -2:
                continue
            rest = term._replace(root=term.root + 2, spread=term.spread if term.root < -2 else -1)
            whole = self.times({rest: gain}, self.terms(self.spreads[term.spread]))
            if whole is None:
                return None
            result = plus(result, whole)
        return result

    def terms(self, spread: Spread) -> Terms:
        """A spread as terms."""
        squares = {MomentProduct(mean=2): np.asarray(-spread.gain)} if spread.centred else {}
        return _kept({SQUARE: np.asarray(spread.gain), ONE: np.asarray(spread.epsilon), **squares})

    def _rounded(self, gain: np.ndarray, factor: np.ndarray, first: Terms, second: Terms) -> np.ndarray:
        """A product of coefficients; a count times what fp16 holds of its reciprocal is 1."""
        product = np.asarray(gain * factor)
        if gain.size == factor.size == 1 and (set(first) == {ONE} or set(second) == {ONE}) and \
                self.count in (abs(gain.item()), abs(factor.item())):
            slack = max(SAME, SMALLEST * self.count)
            if abs(abs(product.item()) - 1) <= slack:
                return np.asarray(np.sign(product))
        return product

    def mean(self, terms: Terms) -> Terms | None:
        """The mean over the axes."""
        found: dict[MomentProduct, np.ndarray] = {}
        for term, gain in terms.items():
            if any(extent > 1 for axis, extent in enumerate(gain.shape) if axis in self.axes) or term.x > 2:
                return None
            mean = term._replace(x=0, mean=term.mean + (term.x == 1), square=term.square + (term.x == 2))
            found[mean] = found.get(mean, _ZERO) + gain
        return _kept(found)

    def power(self, terms: Terms, exponent: float) -> Terms | None:
        """The terms to a power: whole and small, or of a spread and its roots."""
        if exponent in (1, 2, 3, 4):
            result: Terms | None = terms
            for _ in range(int(exponent) - 1):
                result = None if result is None else self.times(result, terms)
            return result
        if len(terms) == 1:
            (term, gain), = terms.items()
            power = exponent * term.root
            if term[:3] == (0, 0, 0) and term.root and gain.size == 1 and gain.item() > 0 and power % 1 == 0:
                root = MomentProduct(spread=term.spread, root=int(power))
                return self.times({ONE: np.asarray(gain ** exponent)}, {root: _UNIT})
        spread = self.spread(terms)
        if spread is None or exponent * 2 % 1:
            return None
        return self.of_spread(spread, int(-2 * exponent))

    def of_spread(self, spread: Spread, root: int) -> Terms:
        """The reciprocal root of a spread to a power."""
        if spread not in self.spreads:
            self.spreads.append(spread)
        return {MomentProduct(spread=self.spreads.index(spread), root=root): _UNIT}

    def spread(self, terms: Terms) -> Spread | None:
        """The spread the terms are; None where they are something else, or may be below 0."""
        left = dict(terms)
        gain, squares = left.pop(SQUARE, None), left.pop(MomentProduct(mean=2), None)
        epsilon = left.pop(ONE, _ZERO)
        if left or gain is None or gain.size != 1 or epsilon.size != 1 or gain.item() <= 0 or epsilon.item() < 0:
            return None
        if squares is not None and not close(gain, -squares):
            return None
        return Spread(squares is not None, gain.item(), epsilon.item())

    def at_least(self, terms: Terms, bound: float) -> Terms | None:
        """The larger of the terms and a number, where that only keeps them above 0."""
        spread = self.spread(terms)
        if spread is not None:
            if bound <= spread.epsilon:
                return terms
            return {**terms, ONE: np.asarray(bound)} if bound <= LEAST else None
        root, below = self._root(terms)
        if root is None or bound < 0:
            return terms if root is not None else None
        small = (bound / below) ** 2
        if small <= root.epsilon:
            return terms
        if bound > SMALL:
            return None
        raised = self.of_spread(Spread(root.centred, root.gain, small), -1)
        return self.times(raised, {ONE: np.asarray(below)})

    def _root(self, terms: Terms) -> tuple[Spread | None, float]:
        """(spread, factor) where the terms are the root of a spread times a factor above 0."""
        (term, gain), *more = terms.items() if terms else ((ONE, _ZERO),)
        if more or term[:3] != (0, 0, 0) or term.root != -1 or gain.size != 1 or gain.item() <= 0:
            return None, 0.0
        return self.spreads[term.spread], gain.item()

    def deviation(self, terms: Terms) -> Spread | None:
        """The spread whose root the terms are."""
        spread, gain = self._root(terms)
        return None if spread is None else Spread(spread.centred, spread.gain * gain ** 2, spread.epsilon * gain ** 2)


def number(value: float) -> Terms:
    """A number as terms."""
    return _kept({ONE: np.asarray(value, np.float64)})


def plus(first: Terms, second: Terms) -> Terms:
    """The sum."""
    found = dict(first)
    for term, gain in second.items():
        found[term] = np.asarray(found.get(term, _ZERO) + gain)
    return _kept(found)


def close(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether coefficients are the same but for a rounding to fp16."""
    return bool((np.abs(first - second) <= CLOSE * np.maximum(np.abs(first), np.abs(second))).all())


def _product(one: MomentProduct, other: MomentProduct) -> MomentProduct | None:
    spreads = {term.spread for term in (one, other) if term.root}
    root = one.root + other.root
    powers = [one[place] + other[place] for place in range(3)]
    if len(spreads) > 1 or powers[0] > HIGHEST or not -HIGHEST <= root <= HIGHEST:
        return None
    return MomentProduct(powers[0], powers[1], powers[2], spreads.pop() if root else -1, root)


def _kept(terms: Mapping[MomentProduct, np.ndarray]) -> Terms:
    return {term: np.asarray(gain, np.float64) for term, gain in terms.items() if np.any(gain)}
