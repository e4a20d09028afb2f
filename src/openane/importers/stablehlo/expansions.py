"""The complementary error function, which JAX writes out in some sixty operations, told by what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from math import erfc

import numpy as np

from openane.graph import Value
from openane.importers.stablehlo.operators.elementwise import COMPARED, FOLDS
from openane.importers.stablehlo.step import Origin, Shared, StableTensor

MOST = 96
"""Operations it is written in at most."""
_GRID = np.concatenate([np.linspace(-6, 6, 49), [-0.03, 0.07]])
_WANTED = np.array([erfc(x) for x in _GRID])
_TOLERANCE = 1e-5
"""What fp32 constants and an approximation err by at most."""


def complement_of(result: StableTensor, shared: Shared) -> StableTensor | None:
    """The tensor whose complementary error function a result is; None where it is something else."""
    parts = _parts(result, shared)
    if len(parts) >= MOST or not any(shared.origins[name][0] == "exponential" for name in parts):
        return None
    seen: set[str] = set()
    for name in parts:
        for source in shared.origins[name][1]:
            if isinstance(source.held, Value) and source.held.name not in seen and source.shape == result.shape:
                seen.add(source.held.name)
                if _complements(result, source, shared):
                    return source
    return None


def _function(op: str) -> object:
    return COMPARED.get(op.removeprefix("compare ")) if op.startswith("compare ") else FOLDS.get(op)


def _parts(result: StableTensor, shared: Shared) -> list[str]:
    """The values that are computed element by element of one another, from the last on, as far as MOST."""
    found: dict[str, None] = {}
    waiting = [result]
    while waiting and len(found) < MOST:
        held = waiting.pop().held
        if isinstance(held, Value) and held.name not in found and held.name in shared.origins and \
                _function(shared.origins[held.name][0]) is not None:
            found[held.name] = None
            waiting += shared.origins[held.name][1]
    return list(found)


def _complements(result: StableTensor, source: StableTensor, shared: Shared) -> bool:
    assert isinstance(source.held, Value)
    known: dict[str, np.ndarray] = {source.held.name: _GRID}
    with np.errstate(all="ignore"):
        found = _value(result, known, shared.origins)
    return found is not None and found.shape == _GRID.shape and bool(np.abs(found - _WANTED).max() <= _TOLERANCE)


def _value(tensor: StableTensor, known: dict[str, np.ndarray], origins: Mapping[str, Origin]) -> np.ndarray | None:
    """What a tensor is for the grid in place of its source; None where it depends on something else."""
    if tensor.number is not None:
        return np.asarray(tensor.number)
    held = tensor.held
    if not isinstance(held, Value) or (held.name not in origins and held.name not in known):
        return None
    if held.name not in known:
        op, operands = origins[held.name]
        function, values = _function(op), [_value(each, known, origins) for each in operands]
        if not callable(function) or any(value is None for value in values):
            return None
        known[held.name] = np.asarray(function(*values))
    return known[held.name]
