"""Users' own activations: any scalar function on a domain as a table of the neural engine.

    import openane as ane
    curve = ane.lut(lambda x: np.sin(x) / x, (1, 12))
    print(curve)                                     # its worst and root-mean-square error
    y = builder.single("lut_activation", x=x, **curve.operands)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.errors import GraphError
from openane.ops import tables
from openane.ops.halves import LARGEST, half
from openane.record_classes import dataclass

Function = Callable[[np.ndarray], np.ndarray]

SAMPLES = 32
"""Points per interval the knots are fitted on."""
ROUNDS = 40
"""Times the worst points are given more weight."""
INTERVALS = KNOTS - 1
ORIGINS = {TableKind.FROM_START: 0, TableKind.CENTRED: INTERVALS // 2, TableKind.TO_END: INTERVALS}


@dataclass(frozen=True, slots=True)
class Lut:
    """table(scale * (x + bias)): a function as the engine's post stage computes it.

    `error` and `rms` are the worst and the root-mean-square absolute error over all fp16 numbers of `domain`, rounding
    of the result to fp16 included; `worst` is where the worst one is. Outside the domain the function keeps its values
    at the ends.
    """

    table: Table
    scale: float
    bias: float
    domain: tuple[float, float]
    error: float
    rms: float
    worst: float

    @property
    def operands(self) -> dict[str, Any]:
        """Operands of a `lut_activation` node beside x, for GraphBuilder.add."""
        table = self.table
        odd = {"odd": True} if table.symmetry is Symmetry.ODD else {}
        return {"knots": list(table.knots), "clips": [table.low_clip, table.high_clip],
                "values": [table.low_value, table.high_value], "exponent": table.exponent,
                "kind": table.kind.name, "scale": self.scale, "bias": self.bias, **odd}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """What the engine makes of x (any shape, read as fp16): float32 holding fp16 numbers."""
        return evaluate(self.table, self.scale, self.bias, np.asarray(x))

    def __str__(self) -> str:
        low, high = self.domain
        return (f"table of {KNOTS} knots on [{low:g}, {high:g}]: worst error {self.error:.3g} at x = {self.worst:g}, "
                f"root mean square {self.rms:.3g}")


def lut(function: Function, domain: tuple[float, float]) -> Lut:
    """The table of `function` with the smallest worst error over all fp16 numbers of `domain` (low, high).

    `function` takes a float64 array and gives the values, element by element. The 32 intervals cover the domain; where
    it holds 0, tables with a knot there compete. GraphError when the domain is empty or leaves fp16, or the function
    gives something else than finite numbers of its argument's shape within fp16's range.
    """
    low, high = _checked_domain(domain)
    x = tables.finite_halves()
    x = x[(x >= low) & (x <= high)]
    wanted = _values(function, x)
    best: Lut | None = None
    for candidate, scale, bias in _candidates(function, low, high):
        error = np.abs(evaluate(candidate, scale, bias, x).astype(np.float64) - wanted)
        place = int(error.argmax())
        if best is None or error[place] < best.error:
            best = Lut(candidate, scale, bias, (low, high), float(error[place]),
                       float(np.sqrt(np.mean(error ** 2))), float(x[place]))
    assert best is not None
    return best


def evaluate(table: Table, scale: float, bias: float, x: np.ndarray) -> np.ndarray:
    """table(scale * (x + bias)) rounded to fp16, as float32 of x's shape. NaN is read as +inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        read = np.nan_to_num(x.astype(np.float16).astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        inner = (read + bias) * scale
        return tables.evaluate(table, inner).astype(np.float16).astype(np.float32)


def _checked_domain(domain: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (half(float(end)) for end in domain)
    except (TypeError, ValueError):
        raise GraphError(f"lut: the domain must be two numbers (low, high); found {domain!r}") from None
    if not -LARGEST <= low < high <= LARGEST:
        raise GraphError(f"lut: the domain must go from a finite fp16 number to a larger one; found {domain!r}")
    return low, high


def _values(function: Function, x: np.ndarray) -> np.ndarray:
    """The function's values, checked."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(x.copy()))
    if found.shape != x.shape or found.dtype.kind not in "fiub":
        raise GraphError(f"lut: the function must map {x.shape} numbers to as many; found {found.dtype} {found.shape}")
    values = found.astype(np.float64)
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        raise GraphError(f"lut: the function must stay within fp16 (65504) on its domain; found {values[bad][0]} "
                         f"at x = {x[bad][0]:g}")
    return values


def _candidates(function: Function, low: float, high: float) -> Iterator[tuple[Table, float, float]]:
    """(table, scale, bias): intervals that are powers of two around 0, or that cover the domain exactly."""
    for kind, origin in ORIGINS.items():
        reach = max(-low / origin if origin else (0.0 if low >= 0 else np.inf),
                    high / (INTERVALS - origin) if origin < INTERVALS else (0.0 if high <= 0 else np.inf))
        if 0 < reach < np.inf:
            exponent = int(np.floor(-np.log2(reach)))
            yield from ((t, 1.0, 0.0) for t in _tables(function, low, high, kind, exponent, 1.0, 0.0))
    exponent = int(np.floor(np.log2(INTERVALS / (high - low))))
    scale, bias = half(INTERVALS / (high - low) / 2.0 ** exponent), half(-low) + 0.0
    yield from ((table, scale, bias) for table in _tables(function, low, high, TableKind.FROM_START, exponent, scale,
                                                          bias))


def _tables(function: Function, low: float, high: float, kind: TableKind, exponent: int, scale: float,
            bias: float) -> Iterator[Table]:
    """Knots that are the function's values, and knots fitted to it between them."""
    step = 2.0 ** -exponent
    places = np.clip((np.arange(KNOTS) - ORIGINS[kind]) * step / scale - bias, low, high)
    points = np.linspace(low, high, INTERVALS * SAMPLES + 1)
    position = (points + bias) * scale / step + ORIGINS[kind]
    below, above = tables.rounded(_values(function, np.array([low, high])))
    low_clip, high_clip = tables.rounded(np.array([(low + bias) * scale, (high + bias) * scale]))
    for knots in (_values(function, places), _fitted(position, _values(function, points))):
        yield Table(low_clip, high_clip, below, above, tables.rounded(knots), exponent=exponent, kind=kind)


def _fitted(position: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Knots whose interpolation at `position` is closest to `wanted` in its worst error: least squares whose weights
    follow the errors (Lawson's iteration)."""
    cell = np.clip(position.astype(int), 0, INTERVALS - 1)
    fraction = position - cell
    rows = np.arange(len(position))
    basis = np.zeros((len(position), KNOTS))
    basis[rows, cell], basis[rows, cell + 1] = 1 - fraction, fraction
    weights = np.full(len(position), 1 / len(position))
    best, least = np.zeros(KNOTS), np.inf
    ridge = 1e-12 * np.eye(KNOTS)
    for _ in range(ROUNDS):
        weighted = basis * weights[:, None]
        knots = np.linalg.solve(weighted.T @ basis + ridge, weighted.T @ wanted)
        error = np.abs(basis @ knots - wanted)
        if error.max() < least:
            best, least = knots, float(error.max())
        weights = weights * (error + 1e-9 * (1 + error.max()))
        weights /= weights.sum()
    return best
