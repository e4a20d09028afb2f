"""Special functions numpy lacks, on arrays of float64: relative error below 1e-10, or absolute below 1e-13 near their
zeros. NaN where they are not defined."""

from __future__ import annotations

import math

import numpy as np

from openane.ops.functions import erf

SHIFT = 10
"""By how many steps of its recurrence a gamma function is moved to where its series in 1 / z holds."""
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The Bernoulli numbers of 2, 4, 6 and so on."""
ROUNDS = 8
"""Newton's steps to an inverse: each doubles its digits, from two on."""
SERIES = 25.0
"""Up to here a Bessel function is summed by powers of x, from here on by powers of 1 / x."""
FRACTIONS = 60
"""Steps of a continued fraction of the complementary error function, which holds from 2 on."""


def erfcx(x: np.ndarray) -> np.ndarray:
    """exp(x^2) * erfc(x)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(x < 0, 2 * np.exp(np.square(x)) - _tail_of(np.abs(x)), _tail_of(np.abs(x))))


def _tail_of(x: np.ndarray) -> np.ndarray:
    """The same for x of 0 or more."""
    near, far = np.minimum(x, 2.0), np.maximum(x, 2.0)
    fraction = far
    for step in range(FRACTIONS, 0, -1):
        fraction = far + step / 2 / fraction
    close = np.exp(near * near) * (1 - erf(near))
    return np.asarray(np.where(x < 2, close, 1 / (fraction * math.sqrt(math.pi))))


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), with its digits where it is small."""
    with np.errstate(under="ignore"):
        tail = np.exp(-np.square(x)) * _tail_of(np.abs(x))
    return np.asarray(np.where(np.isposinf(x), 0.0, np.where(x < 0, 2 - tail, tail)))


def _tail(share: np.ndarray) -> np.ndarray:
    """The t of 0 or more at which erfc(t) is a share of 1: 0 < share <= 1."""
    logarithm = np.log(share)
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.log(share) + np.log(2 - share)
        middle = 2 / (math.pi * 0.147) + both / 2
        t = np.sqrt(np.maximum(np.sqrt(middle * middle - both / 0.147) - middle, 0))
        for _ in range(ROUNDS):
            found = _tail_of(t)
            t = np.maximum(t + (np.log(found) - t * t - logarithm) * found * (math.sqrt(math.pi) / 2), 0)
    return np.asarray(t)


def erfinv(x: np.ndarray) -> np.ndarray:
    """The inverse of the error function: infinite at -1 and 1."""
    size = np.abs(x)
    z = size * (math.sqrt(math.pi) / 2)
    square = z * z
    powers = (1.0, 1 / 3, 7 / 30, 127 / 630, 4369 / 22680, 34807 / 178200, 20036983 / 97297200)
    near = z * np.polynomial.polynomial.polyval(np.minimum(square, 1.0), np.array(powers))
    with np.errstate(invalid="ignore"):
        found = np.where(size < 0.1, near, _tail(np.where((size > 0) & (size < 1), 1 - size, 0.5)))
    found = np.where(size == 1, np.inf, np.where(size <= 1, found, np.nan))
    return np.asarray(np.copysign(found, x))


def ndtri(x: np.ndarray) -> np.ndarray:
    """The number below which a share x of a normal distribution lies: infinite at 0 and 1."""
    below = np.minimum(x, 1 - x)
    tail = math.sqrt(2) * _tail(np.where(below > 0, 2 * below, 0.5))
    near = math.sqrt(2) * erfinv(np.clip(2 * x - 1, -0.5, 0.5))
    found = np.where(np.abs(2 * x - 1) < 0.5, near, np.where(x < 0.5, -tail, tail))
    return np.asarray(np.where(x == 0, -np.inf, np.where(x == 1, np.inf, np.where(below > 0, found, np.nan))))


def _bessel(x: np.ndarray, order: int) -> np.ndarray:
    """exp(-|x|) times the modified Bessel function of the first kind of order 0 or 1, of |x|."""
    size = np.abs(x)
    near, far = np.minimum(size, SERIES), np.maximum(size, SERIES)
    term = (near / 2) ** order
    total = term.copy()
    for step in range(1, 80):
        term = term * np.square(near / 2) / (step * (step + order))
        total += term
    term = np.ones_like(far)
    behind = term.copy()
    for step in range(1, 20):
        term = term * -(4 * order * order - (2 * step - 1) ** 2) / (8 * step * far)
        behind += term
    return np.asarray(np.where(size < SERIES, total * np.exp(-near), behind / np.sqrt(2 * math.pi * far)))


def i0e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) times the modified Bessel function of order 0."""
    return _bessel(x, 0)


def i1e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) times the modified Bessel function of order 1, an odd function."""
    return np.asarray(np.copysign(_bessel(x, 1), x))


def i0(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 0."""
    return np.asarray(i0e(x) * np.exp(np.abs(x)))


def i1(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 1."""
    return np.asarray(i1e(x) * np.exp(np.abs(x)))


def _from_pole(x: np.ndarray) -> np.ndarray:
    """x less the nearest whole number."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x - np.rint(x))


def lgamma(x: np.ndarray) -> np.ndarray:
    """The logarithm of the magnitude of the gamma function: infinite at whole numbers of 0 or less."""
    z = np.where(x < 0, 1 - x, x)
    far = z + SHIFT
    found = (far - 0.5) * np.log(far) - far + math.log(2 * math.pi) / 2
    for step, number in enumerate(BERNOULLI, start=1):
        found = found + number / (2 * step * (2 * step - 1) * far ** (2 * step - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        for step in range(SHIFT):
            found = found - np.log(z + step)
        mirrored = math.log(math.pi) - np.log(np.abs(np.sin(math.pi * _from_pole(x)))) - found
    found = np.where(np.isinf(x), np.inf, np.where(x < 0, mirrored, found))
    return np.asarray(np.where((x == 1) | (x == 2), 0.0, found))


def digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of lgamma: -infinity at 0, NaN at whole numbers below it."""
    z = np.where(x < 0, 1 - x, x)
    far = z + SHIFT
    found = np.log(far) - 1 / (2 * far)
    for step, number in enumerate(BERNOULLI, start=1):
        found = found - number / (2 * step * far ** (2 * step))
    with np.errstate(divide="ignore", invalid="ignore"):
        for step in range(SHIFT):
            found = found - 1 / (z + step)
        pole = _from_pole(x)
        mirrored = np.where(pole == 0, np.nan, found - math.pi / np.tan(math.pi * pole))
    return np.asarray(np.where(x == 0, -np.inf, np.where(x < 0, mirrored, found)))


def trigamma(x: np.ndarray) -> np.ndarray:
    """The derivative of digamma: infinite at whole numbers of 0 or less."""
    z = np.where(x < 0, 1 - x, x)
    far = z + SHIFT
    found = 1 / far + 1 / (2 * far * far)
    for step, number in enumerate(BERNOULLI, start=1):
        found = found + number / far ** (2 * step + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for step in range(SHIFT):
            found = found + 1 / np.square(z + step)
        mirrored = np.square(math.pi / np.sin(math.pi * _from_pole(x))) - found
    return np.asarray(np.where(x < 0, mirrored, found))
