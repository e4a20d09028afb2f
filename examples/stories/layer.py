"""One Llama-style layer as the six programs of a training step, each handing out the taps the next ones read.

Activations are [1, channels, 1, sequence]. The forward parts hand out what their backward parts need, so that nothing
is computed twice; attention's backward pass is cut in two where only the probabilities and their gradients remain. The
backward pass of RMS normalisation, residual sums and weight gradients are left to the caller.

A kernel's ports are one surface each way by default, the parts one after another along the channels: a call hands over
two surfaces, however many taps there are. A slice or a concatenation along the channels costs nothing, since every
channel has its own place in a surface. `packed=False` gives a port a part. Which parts, and in which order, follows
the public training kernels for Stories110M.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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
    """A GraphBuilder in the words of the layer. `reads` names its activations and their channels."""

    def __init__(self, layer: Layer, name: str, reads: Mapping[str, int], packed: bool = True) -> None:
        super().__init__(name)
        self.layer, self.weights, self.packed = layer, layer.weights, packed
        self.parts = self._sliced(reads) if packed else {part: self._surface(part, channels)
                                                        for part, channels in reads.items()}

    def hand_out(self, parts: Mapping[str, Value]) -> Graph:
        """The graph with these parts [1, channels, 1, sequence] as outputs."""
        if not self.packed or len(parts) == 1:
            return self.finish(dict(parts))
        return self.finish({"taps": self.single("concat", values=tuple(parts.values()), axis=1, interleave=False)})

    def _surface(self, name: str, channels: int) -> Value:
        return self.input(name, "fp16", (1, channels, 1, self.layer.sequence))

    def _sliced(self, reads: Mapping[str, int]) -> dict[str, Value]:
        """The parts of one surface `x`."""
        whole = self._surface("x", sum(reads.values()))
        if len(reads) == 1:
            return dict.fromkeys(reads, whole)
        parts = self.add("split", x=whole, split_sizes=list(reads.values()), axis=1)
        assert isinstance(parts, tuple)  # there are several
        return dict(zip(reads, parts, strict=True))

    def scores(self, name: str) -> Value:
        """A part of the heads' scores as [1, heads, sequence, sequence]."""
        layer = self.layer
        return self.single("reshape", x=self.parts[name], shape=[1, layer.heads, layer.sequence, layer.sequence])

    def folded(self, scores: Value) -> Value:
        """[1, heads * sequence, 1, sequence] of [1, heads, sequence, sequence]."""
        layer = self.layer
        return self.single("reshape", x=scores, shape=[1, layer.heads * layer.sequence, 1, layer.sequence])

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


def forward_attention(layer: Layer, packed: bool = True) -> Graph:
    """x -> attention; taps q k v context normal."""
    kernel = Kernel(layer, "forward_attention", {"x": layer.width}, packed)
    normal = kernel.norm(kernel.parts["x"], "norm1")
    return kernel.hand_out({**kernel.attend(normal), "normal": normal})


def forward_feed(layer: Layer, packed: bool = True) -> Graph:
    """x -> feed; taps h1 h3 gate normal."""
    kernel = Kernel(layer, "forward_feed", {"x": layer.width}, packed)
    normal = kernel.norm(kernel.parts["x"], "norm2")
    return kernel.hand_out({**kernel.feed(normal), "normal": normal})


def backward_feed(layer: Layer, packed: bool = True) -> Graph:
    """d_feed h1 h3 -> d_normal; taps d_h1 d_h3, which the gradients of w1 and w3 need."""
    kernel = Kernel(layer, "backward_feed", {"d_feed": layer.width, "h1": layer.hidden, "h3": layer.hidden}, packed)
    given, first, third = kernel.parts.values()
    d_gate = kernel.project(given, "w2", backwards=True)
    half = kernel.single("sigmoid", x=first)
    silu = kernel.single("mul", x=first, y=half)
    slope = kernel.single("add", x=half, y=kernel.single("mul", x=silu, y=kernel.single("sub", x=1.0, y=half)))
    d_first = kernel.single("mul", x=kernel.single("mul", x=d_gate, y=third), y=slope)
    d_third = kernel.single("mul", x=d_gate, y=silu)
    total = kernel.single("add", x=kernel.project(d_first, "w1", True), y=kernel.project(d_third, "w3", True))
    return kernel.hand_out({"d_normal": total, "d_h1": d_first, "d_h3": d_third})


def backward_attention_values(layer: Layer, packed: bool = True) -> Graph:
    """q k v d_attention -> d_v, probabilities and the gradient of the probabilities."""
    reads = dict.fromkeys(("q", "k", "v", "d_attention"), layer.width)
    kernel = Kernel(layer, "backward_attention_values", reads, packed)
    given = kernel.split(kernel.project(kernel.parts["d_attention"], "wo", backwards=True))
    query, key, value = (kernel.split(kernel.parts[name]) for name in "qkv")
    weights = kernel.probabilities(query, key)
    d_value = kernel.join(kernel.single("matmul", x=given, y=weights))
    slopes = kernel.single("matmul", x=given, y=value, transpose_x=True)
    return kernel.hand_out({"d_v": d_value, "probabilities": kernel.folded(weights),
                            "d_probabilities": kernel.folded(slopes)})


def backward_attention_scores(layer: Layer, packed: bool = True) -> Graph:
    """probabilities d_probabilities q k -> d_q d_k."""
    scores = layer.heads * layer.sequence
    reads = {"probabilities": scores, "d_probabilities": scores, "q": layer.width, "k": layer.width}
    kernel = Kernel(layer, "backward_attention_scores", reads, packed)
    weights, slopes = kernel.scores("probabilities"), kernel.scores("d_probabilities")
    query, key = (kernel.split(kernel.parts[name]) for name in "qk")
    mean = kernel.single("reduce_sum", x=kernel.single("mul", x=weights, y=slopes), axes=[-1], keep_dims=True)
    logits = kernel.single("mul", x=weights, y=kernel.single("sub", x=slopes, y=mean))
    scaled = kernel.single("mul", x=logits, y=(layer.width // layer.heads) ** -0.5)
    d_query = kernel.join(kernel.single("matmul", x=key, y=scaled, transpose_y=True))
    return kernel.hand_out({"d_q": d_query, "d_k": kernel.join(kernel.single("matmul", x=query, y=scaled))})


def backward_projections(layer: Layer, packed: bool = True) -> Graph:
    """d_q d_k d_v -> d_normal."""
    kernel = Kernel(layer, "backward_projections", dict.fromkeys(("d_q", "d_k", "d_v"), layer.width), packed)
    parts = [kernel.project(kernel.parts[f"d_{name}"], f"w{name}", backwards=True) for name in "qkv"]
    total = kernel.single("add", x=kernel.single("add", x=parts[0], y=parts[1]), y=parts[2])
    return kernel.hand_out({"d_normal": total})


def block(layer: Layer, packed: bool = True) -> Graph:
    """The whole layer forward: x -> y, both residual sums included."""
    kernel = Kernel(layer, "block", {"x": layer.width}, packed)
    x = kernel.parts["x"]
    middle = kernel.single("add", x=x, y=kernel.attend(kernel.norm(x, "norm1"))["attention"])
    return kernel.hand_out({"y": kernel.single("add", x=middle, y=kernel.feed(kernel.norm(middle, "norm2"))["feed"])})


class Builder(Protocol):
    """Makes a kernel's graph."""

    def __call__(self, layer: Layer, packed: bool = True) -> Graph:
        """The graph for a layer's sizes; `packed` as the module says."""


KERNELS: Mapping[str, Builder] = {
    "forward attention": forward_attention, "forward feed-forward": forward_feed,
    "backward feed-forward": backward_feed, "backward attention, values": backward_attention_values,
    "backward attention, scores": backward_attention_scores, "backward projections": backward_projections,
}
