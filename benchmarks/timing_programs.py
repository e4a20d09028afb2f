"""Published timing points as programs: the engine operations a chip would run for them.

Every chip's program is planned for its own generation. The limits of later ones (2 MiB of L2 for a tensor, 64 KiB of
coefficients a core) are H13's as far as is known. Weights are drawn, since only their sizes matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import timing_graphs as graphs
from timing_points import UnknownPointError

import openane as ane
from openane.bench.measure import engine_steps
from openane.bench.programs import (
    attention,
    chain_conv1x1,
    chain_conv3x3,
    chain_gemm,
    gemm,
    group_norm,
    product_sum,
    stencil,
)
from openane.chips import DEFAULT_TARGET
from openane.engine import Access, Operation, PassThrough, Space, multiplications
from openane.graph import Graph
from openane.timing import operations_of

L2_TENSOR = 2 << 20
"""Bytes from which on an operand does not stay in L2."""
MOST = 1 << 28
"""Elements a program's weights and inputs may have; forty layers of 2048 channels have 168 million."""
SIDE = 1 << 16
DEEPEST = 1 << 10
KERNEL = re.compile(r"(?P<name>\w*?[a-z])_?(?P<high>\d)x(?P<wide>\d)")


@dataclass(frozen=True, slots=True)
class Planned:
    """A point's program: its operations, and the bytes of its inputs and outputs."""

    operations: tuple[Operation, ...]
    read: int
    written: int

    def amount(self, counts: str) -> float:
        """How many `operations` (two a product), `multiplications` or `bytes` it is."""
        if counts == "bytes":
            return self.read + self.written
        products = sum(multiplications(operation) for operation in self.operations)
        return products * 2 if counts == "operations" else products


@dataclass(frozen=True, slots=True)
class Maker:
    """How an operation's graph is made: of which sizes, and how many elements weights and inputs then have at most."""

    graph: Callable[..., Graph]
    wanted: tuple[str, ...]
    elements: Callable[..., int] = lambda *sizes: prod(sizes)


def planned(given: Mapping[str, Any], target: str = DEFAULT_TARGET) -> Planned:
    """The program of a generation that a point's parameters name. UnknownPointError says what is not known about it."""
    name, params = _name(given)
    kind = str(params.get("dtype") or "fp16").lower()
    if kind not in ("fp16", "float16", "half"):
        raise UnknownPointError(f"element type {kind} is not modelled")
    sizes = tuple(_size(name, params, key) for key in MAKERS[name].wanted)
    if MAKERS[name].elements(*sizes) > MOST:
        raise UnknownPointError(f"{name} of {', '.join(map(str, sizes))} has more than {MOST} elements")
    try:
        plan = _compiled(name, sizes, target)
    except ane.AneError as error:
        raise UnknownPointError(str(error).splitlines()[0]) from None
    return _with_casts(plan) if params.get("io_fp32") else plan


def _name(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The maker of a point, and its parameters with the kernel its operation's name may state (`conv5x5`)."""
    stated = params.get("op")
    name = str(stated or "").strip().lower().replace("-", "_").replace(" ", "_")
    sides = KERNEL.fullmatch(name) if name not in MAKERS else None
    if sides is not None:
        name = sides["name"]
        params = {**params, "kh": int(sides["high"]), "kw": int(sides["wide"]), "k": int(sides["high"])}
    name = ALIASES.get(name, name)
    if name not in MAKERS:
        raise UnknownPointError(f"no program is known for {stated or params.get('path') or dict(params)}")
    return name, params


def _size(name: str, params: Mapping[str, Any], key: str) -> int:
    """A size as stated, under one of its names, or its usual value."""
    value = next((params[each] for each in NAMES.get(key, (key,)) if params.get(each) is not None), None)
    if value is None and key == "elems":
        value = _elements(params)
    if value is None:
        value = DEFAULTS.get(key)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or (isinstance(value, bool) and key != "shared_weights"):
        raise UnknownPointError(f"{name} does not state {key}")
    most = {"elems": MOST, "depth": DEEPEST, "steps": DEEPEST}.get(key, SIDE)
    if not (key == "shared_weights" or value >= 1) or value > most:
        raise UnknownPointError(f"{name}: {key} is {value}, of 1 to {most}")
    return int(value)


def _elements(params: Mapping[str, Any]) -> int | None:
    """Elements of a tensor stated by its shape or its sides."""
    shape = params.get("shape")
    sides = shape if isinstance(shape, list) else [params[key] for key in ("batch", "C", "H", "W") if key in params]
    if not sides or not all(isinstance(side, int) and 0 < side <= MOST for side in sides):
        return None
    return min(prod(sides), MOST + 1)


def _with_casts(plan: Planned) -> Planned:
    """The same with single-precision inputs and outputs: the engine converts them in tasks of their own, through L2
    where the half-precision side fits."""
    return Planned((_cast(plan.read, True), *plan.operations, _cast(plan.written, False)), 2 * plan.read,
                   2 * plan.written)


def _cast(size: int, inward: bool) -> Operation:
    """A task that moves `size` bytes of half precision and twice as many of single precision."""
    half = Access(space=Space.L2 if size < L2_TENSOR else Space.MEMORY, shape=(1, 1, 1, 1, max(1, size // 2)),
                  strides=(0, 0, 0, 0, 2))
    single = Access(space=Space.MEMORY, shape=(1, 1, 1, 1, max(1, size)), strides=(0, 0, 0, 0, 2))
    return PassThrough(source=single, result=half) if inward else PassThrough(source=half, result=single)


@cache
def _compiled(name: str, sizes: tuple[int, ...], target: str) -> Planned:
    # as-is: what was measured holds no tensor times a power of two, and drawn weights in long chains would ask for it
    model = ane.compile(MAKERS[name].graph(*sizes), target=target, precision="as-is")
    operations = tuple(op for step in engine_steps(model)
                       for op in operations_of(model.programs[step.program], shared=True))
    return Planned(operations, sum(port.layout.size for port in model.inputs),
                   sum(port.layout.size for port in model.outputs))


CONV = ("kh", "kw", "Cin", "Cout", "H", "W", "batch", "stride", "groups")
POOL = ("k", "stride", "C", "H", "W", "batch")
PLAIN = ("relu", "gelu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "log", "abs", "silu", "square")
PAIRS = ("add", "sub", "mul", "maximum", "minimum", "real_div")
REDUCED = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")
MAKERS: dict[str, Maker] = {
    "chain_conv1x1": Maker(chain_conv1x1, ("depth", "C", "H", "W", "shared_weights"),
                           lambda d, c, h, w, shared: c * c * (1 if shared else d) + c * h * w),
    "conv1x1": Maker(lambda c, h, w: chain_conv1x1(1, c, h, w, 0), ("C", "H", "W"), lambda c, h, w: c * (c + h * w)),
    "conv": Maker(graphs.conv, CONV,
                  lambda a, b, i, o, h, w, n, s, g: a * b * i * o // g + (i * s * s + o) * n * h * w),
    "depthwise_conv": Maker(graphs.depthwise, ("kh", "C", "H", "W", "batch", "stride"),
                            lambda k, c, h, w, n, s: c * (k * k + n * h * w * (1 + s * s))),
    "chain_conv3x3": Maker(chain_conv3x3, ("depth", "C", "H", "W"), lambda d, c, h, w: c * (9 * c * d + h * w)),
    "gemm": Maker(gemm, ("M", "K", "N"), lambda m, k, n: k * n + m * (k + n)),
    "chain_gemm": Maker(chain_gemm, ("depth", "M", "K", "N"), lambda d, m, k, n: d * k * n + m * (k + n)),
    "matmul_runtime": Maker(graphs.product, ("batch", "M", "K", "N"), lambda b, m, k, n: b * (k * n + m * (k + n))),
    "mul+reduce_sum": Maker(product_sum, ("elems",)),
    "softmax": Maker(graphs.unary("softmax", axis=-1), ("elems",)),
    "layer_norm": Maker(graphs.layer_norm, ("elems",)),
    "max_pool": Maker(graphs.pooled("max_pool"), POOL, lambda k, s, c, h, w, n: c * h * w * n),
    "avg_pool": Maker(graphs.pooled("avg_pool"), POOL, lambda k, s, c, h, w, n: c * h * w * n),
    "mha": Maker(attention, ("S", "D", "heads"), lambda s, d, h: 4 * d * d + s * (d + s * h)),
    "group_norm": Maker(group_norm, ("C", "H", "W")),
    "stencil": Maker(stencil, ("steps", "H", "W")),
    **{name: Maker(graphs.unary(name), ("elems",)) for name in PLAIN},
    **{name: Maker(graphs.binary(name), ("elems",)) for name in PAIRS},
    **{name: Maker(graphs.unary(name, axes=[-1], keep_dims=True), ("elems",)) for name in REDUCED},
}
ALIASES = {"relu_stream": "relu", "matmul": "gemm", "linear": "gemm", "chain": "chain_conv1x1", "conv2d": "conv",
           "convolution": "conv", "pointwise": "conv1x1", "depthwise": "depthwise_conv",
           "dwconv": "depthwise_conv", "chain_matmul": "chain_gemm", "attention": "mha", "pooling": "max_pool",
           "pool": "max_pool", "reduce": "reduce_sum", "swish": "silu", "div": "real_div",
           "batch_matmul": "matmul_runtime", "bmm": "matmul_runtime"}
NAMES = {"Cin": ("Cin", "C", "channels"), "Cout": ("Cout", "Cin", "C", "channels"), "C": ("C", "Cin", "channels"),
         "kh": ("kh", "k", "kernel"), "kw": ("kw", "kh", "k", "kernel"), "k": ("k", "kh", "kernel"),
         "W": ("W", "sp"), "batch": ("batch", "B"), "elems": ("elems", "elements", "n")}
DEFAULTS: dict[str, int] = {"shared_weights": 0, "H": 1, "batch": 1, "depth": 1, "stride": 1, "groups": 1}
