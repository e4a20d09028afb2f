"""Operations of the published fingerprints as models of their own, compiled for a generation, run in exact arithmetic.

Each function returns the relative L2 error against the reference its record used: float32, attention float64. `target`
is the generation that its program is compiled for and simulated on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openane as ane
from openane.chips import DEFAULT_TARGET, get_chip
from openane.engine import PassThrough
from openane.ops.build import GraphBuilder
from openane.simulator.arithmetic.half import encode_away
from openane.simulator.lookup_table import evaluate

COLUMNS = 4096

Array = np.ndarray
Single = np.float32


def error(got: Array, wanted: Array) -> float:
    """Relative L2 error."""
    a, b = np.asarray(got, np.float64).ravel(), np.asarray(wanted, np.float64).ravel()
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def engine(build: Callable[..., Any], target: str = DEFAULT_TARGET, **inputs: Array) -> Array:
    """The result of a model of fp16 inputs."""
    builder = GraphBuilder()
    ports = {name: builder.input(name, "fp16", values.shape) for name, values in inputs.items()}
    graph = builder.finish({"result": build(builder, **ports)})
    model = ane.compile(graph, target=target, precision="as-is")  # as Apple's compiler has it
    halves = {name: values.astype(np.float16) for name, values in inputs.items()}
    with ane.open_device(f"simulator:{target}?arithmetic=exact") as device, device.load(model) as executable:
        return np.asarray(executable.run(halves)["result"])


def half(values: Array) -> Array:
    return np.asarray(values).astype(np.float16)


def reduce_sum(x: Array, target: str) -> float:
    made = engine(lambda b, x: b.single("reduce_sum", x=x, axes=np.int32([-1]), keep_dims=False), target, x=x)
    return error(made, x.sum(-1))


def relu(x: Array, target: str) -> float:
    return error(engine(lambda b, x: b.single("relu", x=x), target, x=x), np.maximum(x, 0))


def gelu(x: Array, target: str) -> float:
    return error(engine(lambda b, x: b.single("gelu", x=x, mode="EXACT"), target, x=x), tanh_gelu(x))


def gelu_of_apple(x: Array, target: str) -> float:
    """With the table Apple's compiler makes for H13, by the simulator's rule, which is every generation's; not a number
    where the corpus is not there.

    A record of macOS 26 has the hash of the same table for mode EXACT."""
    path = Path(os.environ.get("OPENANE_CORPUS", "")) / "apple" / "anec" / "gelu.anec"
    if not path.is_file():
        return float("nan")
    program = ane.load_program(path)
    chip = get_chip(program.chip)
    operation = chip.operation(program.tasks[0].words)
    assert isinstance(operation, PassThrough)
    assert operation.coefficients is not None
    assert operation.coefficients.table is not None
    form, start = chip.limits.coefficients.table, operation.coefficients.table.streams.start
    table = form.unpack(program.constants[start:start + form.size])
    return error(encode_away(evaluate(table, half(x).astype(Single))).view(np.float16), tanh_gelu(x))


def tanh_gelu(x: Array) -> Array:
    inner = Single(np.sqrt(2 / np.pi)) * (x + Single(0.044715) * x**3)
    return np.asarray(Single(0.5) * x * (Single(1) + np.tanh(inner)))


def softmax(x: Array, target: str) -> float:
    powers = np.exp(x - x.max(-1, keepdims=True))
    made = engine(lambda b, x: b.single("softmax", x=x, axis=-1), target, x=x)
    return error(made, powers / powers.sum(-1, keepdims=True))


def normalised(x: Array, gain: Array, offset: Array, target: str) -> float:
    """layer_norm over the last axis."""
    made = engine(lambda b, x: b.single("layer_norm", x=x, axes=np.int32([-1]), gamma=half(gain), beta=half(offset),
                                        epsilon=np.float16(1e-5)), target, x=x)
    centred = x - x.mean(-1, keepdims=True)
    return error(made, centred / np.sqrt(x.var(-1, keepdims=True) + Single(1e-5)) * gain + offset)


def layer_norm(x: Array, target: str) -> float:
    rng = np.random.default_rng(13)
    gain = rng.standard_normal(COLUMNS).astype(Single) * Single(0.1) + Single(1)
    return normalised(x, gain, rng.standard_normal(COLUMNS).astype(Single) * Single(0.1), target)


def block_inputs(shape: tuple[int, ...], width: int) -> tuple[Array, Array, Array]:
    """x, gain and offset of the single norms."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(Single)
    gain = rng.standard_normal(width).astype(Single) * Single(0.1) + Single(1)
    return x, gain, rng.standard_normal(width).astype(Single) * Single(0.1)


def layer_norm_block(target: str) -> float:
    return normalised(*block_inputs((197, 768), 768), target)


def rms_norm(target: str) -> float:
    x, gain, _ = block_inputs((197, 768), 768)

    def build(b: GraphBuilder, x: Any) -> Any:
        mean = b.single("reduce_mean", x=b.single("mul", x=x, y=x), axes=np.int32([-1]), keep_dims=True)
        return b.single("mul", x=b.single("mul", x=x, y=b.single("rsqrt", x=mean, epsilon=np.float16(1e-5))),
                        y=half(gain))

    return error(engine(build, target, x=x), x / np.sqrt((x * x).mean(-1, keepdims=True) + Single(1e-5)) * gain)


def group_norm(target: str) -> float:
    x, gain, offset = block_inputs((1, 256, 64, 64), 256)
    groups, axes = (1, 32, 8, 64, 64), np.int32([2, 3, 4])
    columns = (1, 256, 1, 1)

    def build(b: GraphBuilder, x: Any) -> Any:
        split = b.single("reshape", x=x, shape=np.int32(groups))
        centred = b.single("sub", x=split, y=b.single("reduce_mean", x=split, axes=axes, keep_dims=True))
        variance = b.single("reduce_mean", x=b.single("mul", x=centred, y=centred), axes=axes, keep_dims=True)
        scaled = b.single("mul", x=centred, y=b.single("rsqrt", x=variance, epsilon=np.float16(1e-5)))
        whole = b.single("reshape", x=scaled, shape=np.int32(x.shape))
        return b.single("add", x=b.single("mul", x=whole, y=half(gain).reshape(columns)),
                        y=half(offset).reshape(columns))

    parts = x.reshape(groups)
    centred = parts - parts.mean((2, 3, 4), keepdims=True)
    wanted = (centred / np.sqrt(parts.var((2, 3, 4), keepdims=True) + Single(1e-5))).reshape(x.shape)
    return error(engine(build, target, x=x), wanted * gain.reshape(columns) + offset.reshape(columns))


def attention(length: int, target: str) -> float:
    """Multi-head attention of 12 heads over 768 channels."""
    width, heads = 768, 12
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal((width, width)).astype(Single) / Single(np.sqrt(width)) for _ in range(4)]
    offsets = [rng.standard_normal(width).astype(Single) * Single(0.01) for _ in range(4)]
    x = rng.standard_normal((length, width)).astype(Single)

    def build(b: GraphBuilder, x: Any) -> Any:
        def project(value: Any, which: int) -> Any:
            return b.single("linear", x=value, weight=half(weights[which]), bias=half(offsets[which]))

        def split(value: Any) -> Any:
            parts = b.single("reshape", x=value, shape=np.int32([length, heads, width // heads]))
            return b.single("transpose", x=parts, perm=np.int32([1, 0, 2]))

        q, k, v = (split(project(x, which)) for which in range(3))
        scores = b.single("mul", x=b.single("matmul", x=q, y=k, transpose_y=True),
                          y=np.float16(1 / np.sqrt(width // heads)))
        mixed = b.single("matmul", x=b.single("softmax", x=scores, axis=-1), y=v)
        joined = b.single("transpose", x=mixed, perm=np.int32([1, 0, 2]))
        return project(b.single("reshape", x=joined, shape=np.int32([length, width])), 3)

    wide = x.astype(np.float64)
    q, k, v = ((wide @ w.T + o).reshape(length, heads, -1).transpose(1, 0, 2)
               for w, o in zip(weights[:3], offsets[:3], strict=True))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(width // heads)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (powers / powers.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(length, width)
    return error(engine(build, target, x=x), mixed @ weights[3].T + offsets[3])


def value(operation: str, x: float, target: str, count: int = 1, **settings: Any) -> float:
    """One element through one operation."""
    return float(engine(lambda b, x: b.single(operation, x=x, **settings), target, x=np.full((1, count), x)).ravel()[0])


def sum_by_linear(row: Array, target: str) -> float:
    """A row's sum as a layer of ones; this and the following take one row of fp16."""
    ones = np.ones_like(row)[None]
    return float(engine(lambda b, x: b.single("linear", x=x, weight=ones), target, x=row[None])[0, 0])


def sum_by_matmul(row: Array, target: str) -> float:
    """As a product with a column of ones."""
    ones = np.ones_like(row)[:, None]
    return float(engine(lambda b, x, y: b.single("matmul", x=x, y=y), target, x=row[None], y=ones)[0, 0])


def sum_by_reduction(row: Array, target: str) -> float:
    """As a reduction."""
    return float(engine(lambda b, x: b.single("reduce_sum", x=x, axes=np.int32([-1]), keep_dims=True),
                        target, x=row[None])[0, 0])


def sum_of_products(row: Array, target: str) -> float:
    """As a reduction of a product with ones."""
    def build(b: GraphBuilder, x: Any, y: Any) -> Any:
        return b.single("reduce_sum", x=b.single("mul", x=x, y=y), axes=np.int32([-1]), keep_dims=True)
    return float(engine(build, target, x=row[None], y=np.ones_like(row)[None])[0, 0])
