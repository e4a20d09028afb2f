"""Published timing points as programs: the engine operations a chip would run for them.

Every chip's program is planned as for H13, whose limits (2 MiB of L2 for a tensor, 64 KiB of coefficients a core) the
later generations share as far as is known; weights are drawn, since only their sizes matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import openane as ane
from openane.bench.programs import (
    attention,
    chain_conv1x1,
    chain_conv3x3,
    chain_gemm,
    conv,
    gemm,
    group_norm,
    product_sum,
    stencil,
    unary,
)
from openane.engine import Operation
from openane.graph import Graph
from openane.timing import operations_of


class UnknownPointError(Exception):
    """A point nobody can compute from what it states."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A point's program: its operations, and the bytes of its inputs and outputs."""

    operations: tuple[Operation, ...]
    read: int
    written: int


def planned(point: Mapping[str, Any]) -> Planned:
    """The program of a point. UnknownPointError says what is not known about it."""
    given = point["params"]
    name = given.get("op")
    if name not in MAKERS:
        raise UnknownPointError(f"no program is known for {name or given.get('path') or given}")
    if given.get("dtype") not in (None, "fp16"):
        raise UnknownPointError(f"element type {given['dtype']} is not modelled")
    maker, wanted = MAKERS[name]
    missing = [key for key in wanted if not isinstance(given.get(key, DEFAULTS.get(key)), int)]
    if missing:
        raise UnknownPointError(f"{name} does not state {', '.join(missing)}")
    try:
        return _compiled(name, tuple(int(given.get(key, DEFAULTS.get(key, 0))) for key in wanted))
    except ane.AneError as error:
        raise UnknownPointError(str(error).splitlines()[0]) from None


@cache
def _compiled(name: str, sizes: tuple[int, ...]) -> Planned:
    model = ane.compile(MAKERS[name][0](*sizes))
    operations = tuple(op for step in model.steps
                       for op in operations_of(model.programs[step.program], shared=True))
    return Planned(operations, sum(port.layout.size for port in model.inputs),
                   sum(port.layout.size for port in model.outputs))


MAKERS: dict[str, tuple[Callable[..., Graph], tuple[str, ...]]] = {
    "chain_conv1x1": (chain_conv1x1, ("depth", "C", "H", "W", "shared_weights")),
    "conv1x1": (lambda c, h, w: chain_conv1x1(1, c, h, w, 0), ("C", "H", "W")),
    "conv": (conv, ("kh", "Cin", "Cout", "H", "W", "batch")),
    "chain_conv3x3": (chain_conv3x3, ("depth", "C", "H", "W")),
    "gemm": (gemm, ("M", "K", "N")),
    "chain_gemm": (chain_gemm, ("depth", "M", "K", "N")),
    "relu_stream": (unary("relu"), ("elems",)),
    "relu": (unary("relu"), ("elems",)),
    "gelu": (unary("gelu"), ("elems",)),
    "reduce_sum": (unary("reduce_sum", axes=[-1], keep_dims=True), ("elems",)),
    "softmax": (unary("softmax", axis=-1), ("elems",)),
    "mul+reduce_sum": (product_sum, ("elems",)),
    "mha": (attention, ("S", "D", "heads")),
    "group_norm": (group_norm, ("C", "H", "W")),
    "stencil": (stencil, ("steps", "H", "W")),
}
DEFAULTS = {"shared_weights": 0, "H": 1, "batch": 1, "depth": 1}
