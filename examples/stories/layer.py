"""One Llama-style layer as the six programs a training step on the engine runs, each with the taps the next ones read.

Activations are [1, channels, 1, sequence]. Forward attention and feed-forward hand out what their backward parts need
(the taps), so that nothing is computed twice; attention's backward pass is cut in two where only probabilities and
their gradients remain. RMS normalisation's own backward pass and residual sums are left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

EPSILON = 1e-5
MASKED = -30000.0


@dataclass(frozen=True)
class Layer:
    """Sizes of a layer, and seeded weights: wq wk wv wo [width, width], w1 w3 [hidden, width], w2 [width, hidden],
    norm1 norm2 [width]."""

    width: int = 768
    heads: int = 12
    sequence: int = 256
    hidden: int = 2048

    @property
    def weights(self) -> dict[str, np.ndarray]:
        rng, width, hidden = np.random.default_rng(0), self.width, self.hidden
        shapes = dict.fromkeys(("wq", "wk", "wv", "wo"), (width, width))
        shapes |= {"w1": (hidden, width), "w3": (hidden, width), "w2": (width, hidden)}
        made = {name: rng.normal(size=shape) * shape[1] ** -0.5 for name, shape in shapes.items()}
        made |= {name: rng.uniform(0.5, 1.5, width) for name in ("norm1", "norm2")}
        return {name: array.astype(np.float16) for name, array in made.items()}


class Kernel(GraphBuilder):
    """A GraphBuilder in the words of the layer."""

    def __init__(self, layer: Layer, name: str) -> None:
        super().__init__(name)
        self.layer, self.weights = layer, layer.weights

    def activation(self, name: str, channels: int | None = None) -> Value:
        """An input [1, channels, 1, sequence]; the layer's width of channels when none are named."""
        return self.input(name, "fp16", (1, channels or self.layer.width, 1, self.layer.sequence))

    def scores(self, name: str) -> Value:
        """An input [1, heads, sequence, sequence]."""
        return self.input(name, "fp16", (1, self.layer.heads, self.layer.sequence, self.layer.sequence))

    def project(self, x: Value, weight: str, backwards: bool = False) -> Value:
        """The weight, or its transpose, times the channels of every position."""
        matrix = self.weights[weight].T if backwards else self.weights[weight]
        return self.single("conv", weight, x=x, weight=np.ascontiguousarray(matrix)[:, :, None, None])

    def norm(self, x: Value, weight: str) -> Value:
        """RMS normalisation over channels."""
        mean = self.single("reduce_mean", x=self.single("square", x=x), axes=[1], keep_dims=True)
        root = self.single("rsqrt", x=mean, epsilon=EPSILON)
        return self.single("mul", x=self.single("mul", x=x, y=root), y=self.weights[weight].reshape(1, -1, 1, 1))

    def split(self, x: Value) -> Value:
        """[1, heads, channels of a head, sequence]."""
        layer = self.layer
        return self.single("reshape", x=x, shape=[1, layer.heads, layer.width // layer.heads, layer.sequence])

    def join(self, x: Value) -> Value:
        """Back to [1, width, 1, sequence]."""
        return self.single("reshape", x=x, shape=[1, self.layer.width, 1, self.layer.sequence])

    def probabilities(self, query: Value, key: Value) -> Value:
        """Causal attention weights of heads [1, heads, sequence, sequence]."""
        scaled = self.single("mul", x=query, y=query.shape[2] ** -0.5)
        logits = self.single("matmul", x=scaled, y=key, transpose_x=True)
        mask = np.triu(np.full((self.layer.sequence,) * 2, MASKED), 1)
        return self.single("softmax", x=self.single("add", x=logits, y=mask), axis=-1)

    def attend(self, normal: Value) -> dict[str, Value]:
        """Attention from normalised activations, and its taps."""
        parts = {name: self.project(normal, f"w{name}") for name in "qkv"}
        query, key, value = (self.split(part) for part in parts.values())
        context = self.join(self.single("matmul", x=value, y=self.probabilities(query, key), transpose_y=True))
        return {"attention": self.project(context, "wo"), **parts, "context": context}

    def feed(self, normal: Value) -> dict[str, Value]:
        """The feed-forward part from normalised activations, and its taps."""
        first, third = self.project(normal, "w1"), self.project(normal, "w3")
        gate = self.single("mul", x=self.single("silu", x=first), y=third)
        return {"feed": self.project(gate, "w2"), "h1": first, "h3": third, "gate": gate}


def forward_attention(layer: Layer) -> Graph:
    """x -> attention; taps q k v context normal."""
    kernel = Kernel(layer, "forward_attention")
    normal = kernel.norm(kernel.activation("x"), "norm1")
    return kernel.finish({**kernel.attend(normal), "normal": normal})


def forward_feed(layer: Layer) -> Graph:
    """x -> feed; taps h1 h3 gate normal."""
    kernel = Kernel(layer, "forward_feed")
    normal = kernel.norm(kernel.activation("x"), "norm2")
    return kernel.finish({**kernel.feed(normal), "normal": normal})


def backward_feed(layer: Layer) -> Graph:
    """d_feed h1 h3 -> d_normal; taps d_h1 d_h3, which the gradients of w1 and w3 need."""
    kernel = Kernel(layer, "backward_feed")
    given, first, third = kernel.activation("d_feed"), *(kernel.activation(name, layer.hidden) for name in ("h1", "h3"))
    d_gate = kernel.project(given, "w2", backwards=True)
    half = kernel.single("sigmoid", x=first)
    silu = kernel.single("mul", x=first, y=half)
    slope = kernel.single("add", x=half, y=kernel.single("mul", x=silu, y=kernel.single("sub", x=1.0, y=half)))
    d_first = kernel.single("mul", x=kernel.single("mul", x=d_gate, y=third), y=slope)
    d_third = kernel.single("mul", x=d_gate, y=silu)
    total = kernel.single("add", x=kernel.project(d_first, "w1", True), y=kernel.project(d_third, "w3", True))
    return kernel.finish({"d_normal": total, "d_h1": d_first, "d_h3": d_third})


def backward_attention_values(layer: Layer) -> Graph:
    """d_attention q k v -> d_v, probabilities and the gradient of the probabilities."""
    kernel = Kernel(layer, "backward_attention_values")
    given = kernel.split(kernel.project(kernel.activation("d_attention"), "wo", backwards=True))
    query, key, value = (kernel.split(kernel.activation(name)) for name in "qkv")
    weights = kernel.probabilities(query, key)
    d_value = kernel.join(kernel.single("matmul", x=given, y=weights))
    slopes = kernel.single("matmul", x=given, y=value, transpose_x=True)
    return kernel.finish({"d_v": d_value, "probabilities": weights, "d_probabilities": slopes})


def backward_attention_scores(layer: Layer) -> Graph:
    """probabilities d_probabilities q k -> d_q d_k."""
    kernel = Kernel(layer, "backward_attention_scores")
    weights, slopes = kernel.scores("probabilities"), kernel.scores("d_probabilities")
    query, key = (kernel.split(kernel.activation(name)) for name in "qk")
    mean = kernel.single("reduce_sum", x=kernel.single("mul", x=weights, y=slopes), axes=[-1], keep_dims=True)
    logits = kernel.single("mul", x=weights, y=kernel.single("sub", x=slopes, y=mean))
    scaled = kernel.single("mul", x=logits, y=(layer.width // layer.heads) ** -0.5)
    d_query = kernel.join(kernel.single("matmul", x=key, y=scaled, transpose_y=True))
    return kernel.finish({"d_q": d_query, "d_k": kernel.join(kernel.single("matmul", x=query, y=scaled))})


def backward_projections(layer: Layer) -> Graph:
    """d_q d_k d_v -> d_normal."""
    kernel = Kernel(layer, "backward_projections")
    parts = [kernel.project(kernel.activation(f"d_{name}"), f"w{name}", backwards=True) for name in "qkv"]
    total = kernel.single("add", x=kernel.single("add", x=parts[0], y=parts[1]), y=parts[2])
    return kernel.finish({"d_normal": total})


def block(layer: Layer) -> Graph:
    """The whole layer: x -> y, both residual sums included."""
    kernel = Kernel(layer, "block")
    x = kernel.activation("x")
    middle = kernel.single("add", x=x, y=kernel.attend(kernel.norm(x, "norm1"))["attention"])
    return kernel.finish({"y": kernel.single("add", x=middle, y=kernel.feed(kernel.norm(middle, "norm2"))["feed"])})


def measured(layer: Layer, part: str) -> Graph:
    """normal -> attention or feed, and as `loss` the sum of its elements times the input `given`: the gradient by
    normal is what the backward programs make of `given`."""
    kernel = Kernel(layer, part)
    normal, given = kernel.activation("normal"), kernel.activation("given")
    result = (kernel.attend if part == "attention" else kernel.feed)(normal)[part]
    loss = kernel.single("reduce_sum", "loss", x=kernel.single("mul", x=result, y=given))
    return kernel.finish({"loss": loss})


KERNELS: Mapping[str, Callable[[Layer], Graph]] = {
    "forward attention": forward_attention, "forward feed-forward": forward_feed,
    "backward feed-forward": backward_feed, "backward attention, values": backward_attention_values,
    "backward attention, scores": backward_attention_scores, "backward projections": backward_projections,
}
