"""Functions between the layers of a network: what configurations call them, and the operations they become."""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder

ACTIVATIONS: Mapping[str, str] = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "relu": "relu", "relu2": "relu2", "tanh": "tanh"}
"""Hugging Face's names, and what they are here."""


def model_graph(name: str) -> GraphBuilder:
    """Builds a graph whose functions err as little as fp16 itself: a gelu's one table errs by up to 0.006, as much near
    0 as elsewhere, and is most of a layer's error."""
    return GraphBuilder(name, {FUNCTIONS: CLOSE})


def activated(builder: GraphBuilder, x: Value, kind: str) -> Value:
    """A function of `ACTIVATIONS`, by our name, of every element."""
    if kind.startswith("gelu"):
        return builder.single("gelu", x=x, mode="EXACT" if kind == "gelu" else "TANH_APPROXIMATION")
    if kind == "relu2":
        positive = builder.single("relu", x=x)
        return builder.single("mul", x=positive, y=positive)
    return builder.single(kind, x=x)
