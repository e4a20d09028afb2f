"""An encoder of text as a graph: embeddings in, states or the scores of its task out.

The host looks rows up and says which tokens there are; masks and biases by distance are inputs, added to the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.graph import Graph, Value
from openane.models.activations import activated, model_graph
from openane.models.layers import LEAST_EPSILON
from openane.models.rows import RowLayers
from openane.models.text_encoders.config import EncoderConfig, EncoderTask
from openane.models.text_encoders.weights import EncoderWeights
from openane.ops.build import GraphBuilder


def build(weights: EncoderWeights, tokens: int) -> Graph:
    """Inputs, fp16: `embeddings` [1, tokens, rows], `mask` [1, 1 or heads, 1 or tokens, tokens], and `near` [1, 1,
    tokens, tokens] where some layers see only what is near. Outputs: `states` [1, tokens, width] and, where the
    checkpoint has a pooler, `pooled` [1, 1, width]; or `logits` [1, 1 or tokens, labels] of a task."""
    config, builder = weights.config, model_graph(f"encode_{tokens}")
    layers = _Layers(builder, weights, tokens)
    x = builder.input("embeddings", "fp16", (1, tokens, config.rows))
    full = builder.input("mask", "fp16", (1, config.heads, tokens, tokens) if config.buckets else (1, 1, 1, tokens))
    near = builder.input("near", "fp16", (1, 1, tokens, tokens)) if any(config.windows) else full
    x = layers.norm(x, weights.whole("embeddings.norm"))
    if weights.has(weights.whole("project")):
        x = layers.linear(x, [weights.whole("project")], config.width)
    for number in range(len(config.places)):
        windowed = config.windows and config.windows[number] is not None
        x = layers.layer(x, number, near if windowed else full)
    if weights.has(weights.whole("norm")):
        x = layers.norm(x, weights.whole("norm"))
    return builder.finish(_outputs(layers, x))


def _outputs(layers: _Layers, x: Value) -> dict[str, Value]:
    weights, config = layers.weights, layers.config
    if config.task is EncoderTask.STATES:
        pooler = weights.whole("pooler")
        return {"states": x} | ({"pooled": layers.pooled(x)} if weights.has(pooler) else {})
    if config.task is EncoderTask.CLASSIFY:
        return {"logits": _classified(layers, x)}
    rows = layers.dense(x, "head.dense", "head.norm") if weights.has("head.dense") else x
    name = "qa_outputs" if weights.has("qa_outputs") else "classifier"
    count = 2 if config.task is EncoderTask.ANSWER else len(config.labels)
    return {"logits": layers.linear(rows, [name], count)}


def _classified(layers: _Layers, x: Value) -> Value:
    """Scores of a whole text. Which layers they take is told by the checkpoint's names: a pooler and a classifier, a
    classifier of two layers, one behind another layer, or a head with a normalisation."""
    weights, config = layers.weights, layers.config
    labels = len(config.labels)
    if weights.has("classifier.out_proj"):
        return layers.linear(layers.dense(layers.first(x), "classifier.dense"), ["classifier.out_proj"], labels)
    if weights.has("pre_classifier"):
        return layers.linear(layers.dense(layers.first(x), "pre_classifier"), ["classifier"], labels)
    if weights.has("head.dense"):
        pooled = layers.mean(x) if config.pooled_by_mean else layers.first(x)
        return layers.linear(layers.dense(pooled, "head.dense", "head.norm"), ["classifier"], labels)
    return layers.linear(layers.pooled(x), ["classifier"], labels)


class _Layers(RowLayers):
    """Writes the parts of an encoder."""

    def __init__(self, builder: GraphBuilder, weights: EncoderWeights, tokens: int) -> None:
        super().__init__(builder, tokens)
        self.weights = weights
        self.config: EncoderConfig = weights.config
        self._turns = {base: _turns(base, tokens, self.config.head_size) for base in set(self.config.bases)}

    def layer(self, x: Value, number: int, mask: Value) -> Value:
        """One layer, normalised after each part, or before."""
        first, second = (self.weights.layer(number, part) for part in ("norm1", "norm2"))
        add = self.builder.single
        if self.config.normed_first:
            before = x if number == 0 else self.norm(x, first)  # the first follows the embeddings' normalisation
            x = add("add", x=x, y=self._attention(before, number, mask))
            return add("add", x=x, y=self._forward(self.norm(x, second), number))
        x = self.norm(add("add", x=x, y=self._attention(x, number, mask)), first)
        return self.norm(add("add", x=x, y=self._forward(x, number)), second)

    def norm(self, x: Value, name: str) -> Value:
        """Layer normalisation of the last axis."""
        gamma, beta = self.weights.norm(name, x.shape[-1])
        return self.builder.single("layer_norm", x=x, axes=[-1], epsilon=max(self.config.epsilon, LEAST_EPSILON),
                                   gamma=gamma, beta=beta)

    def linear(self, x: Value, names: Sequence[str], outputs: int, scale: float = 1.0) -> Value:
        """Linear layers of the checkpoint side by side, each of so many outputs, the first `scale` times itself."""
        return self.builder.single("linear", x=x, weight=self.weights.matrix(names, outputs, x.shape[-1], scale),
                                   bias=self.weights.bias(names, outputs, scale))

    def dense(self, x: Value, name: str, norm: str | None = None) -> Value:
        """A layer of a task's head, with the head's function and maybe a normalisation."""
        x = self._function(self.linear(x, [name], self.config.width), self.config.head_activation)
        return x if norm is None else self.norm(x, norm)

    def first(self, x: Value) -> Value:
        """The first token's row."""
        return self.part(x, 1, 0, 1)

    def mean(self, x: Value) -> Value:
        """The mean over tokens. What each counts is an input, because the host knows which there are."""
        shares = self.builder.input("shares", "fp16", (1, 1, self.tokens))
        return self.builder.single("matmul", x=shares, y=x)

    def pooled(self, x: Value) -> Value:
        """The pooler's row: tanh of a linear layer on the first token's."""
        name = self.weights.whole("pooler")
        return self.builder.single("tanh", x=self.linear(self.first(x), [name], self.config.width))

    def _attention(self, x: Value, number: int, mask: Value) -> Value:
        config, weights = self.config, self.weights
        scale = config.head_size ** -0.5
        if config.bases:
            heads = self.heads(self.linear(x, [weights.layer(number, "mixed")], 3 * config.width), 3 * config.heads)
            both = self.turned(self.part(heads, 1, 0, 2 * config.heads), *self._turns[config.bases[number]])
            query = self.builder.single("mul", x=self.part(both, 1, 0, config.heads), y=scale)
            keys = self.part(both, 1, config.heads, 2 * config.heads)
        else:
            names = [weights.layer(number, part) for part in ("query", "key", "value")]
            heads = self.heads(self.linear(x, names, config.width, scale), 3 * config.heads)
            query, keys = (self.part(heads, 1, at * config.heads, (at + 1) * config.heads) for at in range(2))
        values = self.part(heads, 1, 2 * config.heads, 3 * config.heads)
        mixed = self.attended(query, self.turned_over(keys), values, mask)
        return self.linear(mixed, [weights.layer(number, "output")], config.width)

    def _forward(self, x: Value, number: int) -> Value:
        config, weights = self.config, self.weights
        if config.normed_first:  # what goes through the function stands first, its gate behind
            both = self.linear(x, [weights.layer(number, "gate_up")], 2 * config.hidden)
            up, gate = (self.part(both, 2, at * config.hidden, (at + 1) * config.hidden) for at in range(2))
            hidden = self.builder.single("mul", x=self._function(up, config.activation), y=gate)
        else:
            hidden = self._function(self.linear(x, [weights.layer(number, "up")], config.hidden), config.activation)
        return self.linear(hidden, [weights.layer(number, "down")], config.width)

    def _function(self, x: Value, kind: str) -> Value:
        return activated(self.builder, x, kind)


def _turns(base: float, tokens: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of rotary positions, fp16 [1, 1, tokens, size]."""
    angles = np.outer(np.arange(tokens), base ** (-np.arange(0, size, 2) / size))
    cosines, sines = (np.concatenate(pair, 1).astype(np.float16)[None, None] for pair in
                      ((np.cos(angles), np.cos(angles)), (-np.sin(angles), np.sin(angles))))
    return cosines, sines
