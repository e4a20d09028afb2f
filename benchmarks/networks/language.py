"""Language models by their published configurations, weights drawn by name, and a decode step as ONNX."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from openane.models import Config, Rope

if TYPE_CHECKING:
    from onnx import ModelProto

    from networks.graph import OnnxGraph

STORIES15M = Config("llama", 32000, 288, 6, 6, 6, 48, 768, 256, tied=True, stops=(1, 2), start=1)
"""llama2.c's models of the TinyStories texts."""
STORIES110M = Config("llama", 32000, 768, 12, 12, 12, 64, 2048, 1024, tied=True, stops=(1, 2), start=1)
QWEN05B = Config("llama", 151936, 896, 24, 14, 2, 64, 4864, 32768, 1e-6, tied=True, rope=Rope(1e6),
                 biases=frozenset({"query", "key", "value"}))
"""Qwen2.5-0.5B's config.json."""
CONFIGS = {"stories15m": STORIES15M, "stories110m": STORIES110M, "qwen2.5-0.5b": QWEN05B}


class RandomWeights(Mapping[str, np.ndarray]):
    """Weights of a configuration, drawn by name when they are asked for: the same for the same seed. Layers keep the
    size of what passes through them, as trained ones do."""

    def __init__(self, config: Config, seed: int = 0, spread: float = 1.0) -> None:
        self._seed, self._spread = seed, spread
        self._shapes = dict(shapes(config))

    def __getitem__(self, name: str) -> np.ndarray:
        shape = self._shapes[name]
        rng = np.random.default_rng([self._seed, *name.encode()])
        values = rng.standard_normal(shape, np.float32)
        if name.endswith("bias"):
            return values * np.float32(0.1)
        if "norm" in name:
            return 1 + values * np.float32(0.1)
        if len(shape) == 2 and name.split(".")[0] in ("embedding", "positions", "types"):
            return values * np.float32(0.7)
        return values * np.float32(self._spread / math.sqrt(shape[-1]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def shapes(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every weight of a configuration and its shape."""
    width = config.width
    norms = sorted(config.norm_vectors, reverse=True)
    yield "embedding.weight", (config.vocabulary, width)
    if config.positions == "learned":
        yield "positions.weight", (config.context, width)
    if config.embedding_norm or not config.decoder:
        yield from ((f"embedding.norm.{kind}", (width,)) for kind in norms)
    if not config.decoder:
        yield "types.weight", (config.types, width)
        yield from (("pooler.weight", (width, width)), ("pooler.bias", (width,)))
    else:
        yield from ((f"norm.{kind}", (width,)) for kind in norms)
    if config.decoder and not config.tied:
        yield "head.weight", (config.vocabulary, width)
    for layer in range(config.layers):
        for part, shape in config.sizes.items():
            yield f"layers.{layer}.{part}.weight", shape
            if part in config.biases:
                yield f"layers.{layer}.{part}.bias", shape[:1]
        if config.normed_heads or config.normed_rows:
            yield from ((f"layers.{layer}.{part}_norm.weight",
                         (config.head_size if config.normed_heads else config.sizes[part][0],))
                        for part in ("query", "key"))
        for norm in config.norm_names:
            yield from ((f"layers.{layer}.{norm}.{kind}", (width,)) for kind in norms)


def decode_step(config: Config, weights: Mapping[str, np.ndarray], held: int) -> ModelProto:
    """One token of a Llama-style decoder on top of `held` others, float32, as exporters write it.

    Inputs: `embedding` [1, 1, width], `cosines` and `sines` [1, 1, 1, head size], `keys.N` and `values.N` [1, kv heads,
    held, head size]. Outputs: the scores [1, 1, vocabulary] and every layer's new key and value.
    """
    from onnx import TensorProto, helper  # what only draws weights does without

    from networks.graph import OnnxGraph

    graph = OnnxGraph("decode", 0, weights)
    x = graph.input("embedding", 1, 1, config.width)
    turns = [graph.input(name, 1, 1, 1, config.head_size) for name in ("cosines", "sines")]
    extra: list[str] = []
    for layer in range(config.layers):
        name = f"layers.{layer}"
        mixed, new = _attention(graph, _rms(graph, x, f"{name}.norm1", config), turns, layer, config, held)
        x, extra = graph.add("Add", x, mixed), extra + new
        normal = _rms(graph, x, f"{name}.norm2", config)
        gate, up = (graph.linear(normal, f"{name}.{part}", config.width, config.hidden, bias=False)
                    for part in ("gate", "up"))
        hidden = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), up)
        x = graph.add("Add", x, graph.linear(hidden, f"{name}.down", config.hidden, config.width, bias=False))
    head = "embedding" if config.tied else "head"
    scores = graph.linear(_rms(graph, x, "norm", config), head, config.width, config.vocabulary, bias=False)
    model = graph.finish(scores, 1, 1, config.vocabulary)
    shape = (1, config.kv_heads, 1, config.head_size)
    model.graph.output.extend(helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in extra)
    return model


def _rms(graph: OnnxGraph, x: str, name: str, config: Config) -> str:
    square = graph.add("ReduceMean", graph.add("Mul", x, x), axes=[-1], keepdims=1)
    root = graph.add("Sqrt", graph.add("Add", square, np.full(1, config.epsilon, np.float32)))
    return graph.add("Mul", graph.add("Div", x, root), graph.weight(f"{name}.weight", config.width))


def _attention(graph: OnnxGraph, x: str, turns: list[str], layer: int, config: Config,
               held: int) -> tuple[str, list[str]]:
    name, size = f"layers.{layer}", config.head_size

    def heads(part: str, count: int) -> str:
        biased = part in config.biases
        flat = graph.linear(x, f"{name}.{part}", config.width, count * size, bias=biased)
        return graph.add("Reshape", flat, np.array([1, count, 1, size]))

    def turned(value: str) -> str:
        half, ends = size // 2, np.array([size])
        first = graph.add("Slice", value, np.array([0]), np.array([half]), np.array([3]))
        second = graph.add("Slice", value, np.array([half]), ends, np.array([3]))
        swapped = graph.add("Concat", graph.add("Neg", second), first, axis=3)
        return graph.add("Add", graph.add("Mul", value, turns[0]), graph.add("Mul", swapped, turns[1]))

    query = turned(heads("query", config.heads))
    key, value = turned(heads("key", config.kv_heads)), heads("value", config.kv_heads)
    seen = [graph.add("Concat", graph.input(f"{kind}.{layer}", 1, config.kv_heads, held, size), new, axis=2)
            for kind, new in (("keys", key), ("values", value))]
    grouped = graph.add("Reshape", query, np.array([1, config.kv_heads, config.heads // config.kv_heads, size]))
    scaled = graph.add("Mul", grouped, np.full(1, size ** -0.5, np.float32))
    scores = graph.add("MatMul", scaled, graph.add("Transpose", seen[0], perm=[0, 1, 3, 2]))
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), seen[1])
    rows = graph.add("Reshape", mixed, np.array([1, 1, config.heads * size]))
    return graph.linear(rows, f"{name}.output", config.heads * size, config.width, bias=False), [key, value]
