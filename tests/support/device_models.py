"""The models every device is held to, from one operation to a sentence encoder; inputs, and how near is near."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import lacking

import openane as ane
from openane.compiler import Model
from openane.graph import Graph, numpy_type
from openane.graph.mil import parse_mil
from openane.ops.build import GraphBuilder

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENS = 8
T = "tensor<fp16, [1, 8, 1, 16]>"
ONES = np.ones((1, 8, 1, 16), np.float16)


def single(op: str, shape: tuple[int, ...], **operands: object) -> Graph:
    """y = op(x)."""
    builder = GraphBuilder()
    return builder.finish({"y": builder.single(op, x=builder.input("x", "fp16", shape), **operands)})


def normal(*shape: int) -> np.ndarray:
    """Weights."""
    return np.random.default_rng(shape).standard_normal(shape)


def elementwise() -> Graph:
    """Two inputs, one fp32, and two outputs, neither in alphabetical order."""
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (3, 5, 33)), builder.input("a", "fp32", (3, 1, 33))
    both = builder.single("sub", x=x, y=builder.single("cast", x=y, dtype="fp16"))
    return builder.finish({"z": builder.single("tanh", x=both), "difference": both})


def product() -> Graph:
    """Two inputs multiplied as matrices."""
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (2, 24, 40)), builder.input("y", "fp16", (2, 40, 17))
    return builder.finish({"z": builder.single("matmul", x=x, y=y)})


def transformer_block() -> Graph:
    """Layer norm, masked attention of two heads, a residual, a feed-forward part."""
    builder, shape, width, heads = GraphBuilder(), (1, 12, 32), 32, 2
    add = builder.single

    def linear(x: Any, rows: int) -> Any:
        return add("linear", x=x, weight=normal(rows, x.shape[-1]) / 6, bias=normal(rows))

    def split(x: Any) -> Any:
        return add("transpose", x=add("reshape", x=x, shape=[1, 12, heads, width // heads]), perm=[0, 2, 1, 3])

    x = builder.input("x", "fp16", shape)
    norm = add("layer_norm", x=x, axes=[-1], epsilon=1e-12, gamma=np.ones(width), beta=np.zeros(width))
    mixed = add("scaled_dot_product_attention", attn_mask=np.where(np.tri(12), 0, -1e9),
                **{name: split(linear(norm, width)) for name in ("query", "key", "value")})
    x = add("add", x=x, y=linear(add("reshape", x=add("transpose", x=mixed, perm=[0, 2, 1, 3]), shape=shape), width))
    return builder.finish({"y": add("add", x=x, y=linear(add("gelu", x=linear(x, 64), mode="EXACT"), width))})


GRAPHS: dict[str, Callable[[], Graph]] = {
    "elementwise": elementwise, "matmul": product, "transformer": transformer_block,
    "conv": lambda: single("conv", (1, 20, 14, 14), weight=normal(24, 20, 3, 3) / 13, pad_type="same"),
    "softmax": lambda: single("softmax", (2, 5, 70), axis=-1),
    "layer_norm": lambda: single("layer_norm", (2, 6, 48), axes=[-1], epsilon=1e-3, gamma=normal(48),
                                 beta=normal(1, 48)[0]),
    "digits": lambda: ane.load_graph(EXAMPLES / "digits" / "digits.onnx"),
}
MODELS = (*GRAPHS, "minilm")


def compiled(name: str) -> Model:
    """One of `MODELS`; the test is skipped where what MiniLM needs is not installed."""
    return minilm() if name == "minilm" else ane.compile(GRAPHS[name]())


def minilm() -> Model:
    """The encoder of the MiniLM example for `TOKENS` tokens."""
    names = ("encoder", "network", "weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES / "minilm")
        encoder, _, weights = (__import__(name) for name in names)
        for name in names:
            sys.modules.pop(name)
    folder = weights.model_folder()
    if folder is None:
        lacking("weights of MiniLM", weights.INSTALL)
    model: Model = encoder.SentenceEncoder(folder, TOKENS).model
    return model


def draw(model: Model) -> dict[str, np.ndarray]:
    """An array for every input."""
    rng = np.random.default_rng(5)
    return {port.name: rng.uniform(-2, 2, port.shape).astype(numpy_type(port.dtype)) for port in model.inputs}


def near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], part: float) -> None:
    """The same ports, and a `part` of each one's largest number at most apart."""
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape)
        exact = values.astype(np.float64)
        assert np.abs(found[name] - exact).max() <= part * np.abs(exact).max() + 1e-3


def function(name: str, last: str) -> Graph:
    """A function that reads the state `total` as `old`, leaves `last` in it, and gives twice that."""
    return parse_mil(f"""program(1.3)
{{
  func {name}<ios18>({T} x, state<{T}> total) {{
    {T} old = read_state(input = total)[name = string("old")];
    {T} new = {last};
    write_state(data = new, input = total)[name = string("w")];
    {T} y = add(x = new, y = new)[name = string("y")];
  }} -> (y);
}}
""")
