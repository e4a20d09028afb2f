"""Scalar functions numpy lacks, on arrays of float64 where nothing else is said."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

STEPS = 512
LIMIT = 6
ORDER = 4
REACH = 9
"""From here on the exact gelu is x, or 0, in float32."""


@cache
def _taylor() -> np.ndarray:
    """Taylor coefficients of erf at the multiples of 1 / STEPS in 0..LIMIT: [ORDER + 1, points].

    The n-th derivative is 2 / sqrt(pi) * (-1)^(n-1) * H(n-1, g) * exp(-g^2), with H the Hermite polynomials
    H(n+1) = 2 g H(n) - 2 n H(n-1).
    """
    g = np.arange(LIMIT * STEPS + 1) / STEPS
    rows = [np.array([math.erf(point) for point in g])]
    slope = 2 / math.sqrt(math.pi) * np.exp(-g * g)
    hermite, before = np.ones_like(g), np.zeros_like(g)
    for n in range(1, ORDER + 1):
        rows.append(slope * hermite * ((-1) ** (n - 1) / math.factorial(n)))
        hermite, before = 2 * g * hermite - 2 * (n - 1) * before, hermite
    return np.array(rows)


def erf(x: np.ndarray) -> np.ndarray:
    """Gauss error function, absolute error below 1e-14: Taylor series around the nearest point of a grid."""
    distance = np.minimum(np.abs(np.atleast_1d(x)), LIMIT)  # erf(6) is 1 in float64
    nearest = np.rint(distance * STEPS)
    with np.errstate(invalid="ignore"):
        places = nearest.astype(np.intp)  # of NaN the first, by the way they are taken
    distance -= np.multiply(nearest, 1 / STEPS, out=nearest)
    table = _taylor()
    result, part = table[ORDER].take(places, mode="clip"), nearest
    for row in table[ORDER - 1::-1]:
        result *= distance
        result += row.take(places, mode="clip", out=part)
    signed: np.ndarray = np.copysign(result, x)
    return signed.reshape(np.shape(x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    decay = np.exp(-np.abs(x))
    result: np.ndarray = np.where(x >= 0, 1, decay) / (1 + decay)
    return result


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)) without overflow."""
    result: np.ndarray = np.logaddexp(0, x)
    return result


def gelu(x: np.ndarray, mode: str) -> np.ndarray:
    """x times the normal distribution's cumulative: EXACT, TANH_APPROXIMATION or SIGMOID_APPROXIMATION."""
    return np.where(x == -np.inf, -0.0, x * cumulative(x, mode))


@cache
def _below() -> np.ndarray:
    """How much the exact gelu is below max(x, 0), a times the cumulative of -a with a = |x|, and its derivatives over 1
    and 2, at the multiples a of 1 / STEPS: [3, points], float32. Behind the last, which is REACH, it is 0."""
    a = np.arange(REACH * STEPS + 1) / STEPS
    share = np.array([math.erfc(point / math.sqrt(2)) / 2 for point in a])
    bell = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    rows = np.array([a * share, share - a * bell, (a * a - 2) * bell / 2])
    rows[:, -1] = 0
    return rows.astype(np.float32)


def single_gelu(x: np.ndarray, mode: str) -> np.ndarray:
    """gelu of float32 numbers; the exact one in float32, relative error below 2e-7: Taylor series as `erf`'s, in half
    the time."""
    if mode != "EXACT":
        return gelu(x.astype(np.float64), mode)
    distance = np.minimum(np.abs(np.atleast_1d(x)), np.float32(REACH))
    nearest = np.rint(distance * np.float32(STEPS))
    with np.errstate(invalid="ignore"):
        places = nearest.astype(np.intp)
    distance -= np.multiply(nearest, np.float32(1 / STEPS), out=nearest)
    below, part = _below()[2].take(places, mode="clip"), nearest
    for row in _below()[1::-1]:
        below *= distance
        below += row.take(places, mode="clip", out=part)
    result: np.ndarray = np.maximum(x, 0, out=part)
    result -= below
    return result.reshape(np.shape(x))


def cumulative(x: np.ndarray, mode: str) -> np.ndarray:
    """The normal distribution's cumulative, or what a mode of gelu takes for it."""
    found: np.ndarray
    if mode == "EXACT":
        found = (1 + erf(x / math.sqrt(2))) / 2
    elif mode == "TANH_APPROXIMATION":
        found = (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2
    else:
        found = sigmoid(1.702 * x)
    return found
