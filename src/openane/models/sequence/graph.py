"""The two functions of a sequence-to-sequence model as graphs: `encode` a whole source, `decode` one token.

Encoding also gives the keys and values that every layer of the decoder looks at, once for all tokens. The decoder's
own keys and values are states, as in `models.decoder`: a step reads them, gives those of its token, and the host puts
these in their place. Masks and biases of positions are inputs, because the host knows what is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from openane.graph import Graph, Value
from openane.models.activations import activated, model_graph
from openane.models.layers import LEAST_EPSILON
from openane.models.rows import RowLayers
from openane.models.sequence.config import SequenceConfig, Stack
from openane.models.sequence.parameters import SequenceParameters
from openane.ops.build import GraphBuilder

ENCODE, DECODE = "encode", "decode"


def state_shapes(config: SequenceConfig, source: int, context: int) -> dict[str, tuple[int, int, int, int]]:
    """The decoder's states: what it looked at before, and the source."""
    outer = config.decoder.layers, config.decoder.heads
    size = config.head_size
    return {"keys": (*outer, size, context), "values": (*outer, context, size),
            "cross_keys": (*outer, size, source), "cross_values": (*outer, source, size)}


def encoder(parameters: SequenceParameters, source: int) -> Graph:
    """Inputs, fp16: `embeddings` [1, source, width], or `features` [1, mels, 2 * source] of a sound; `mask` [1, 1 or
    heads, 1 or source, source], added to scores. Outputs: `states` [1, source, width], and what
    the decoder looks at: `source_keys`, `source_values`."""
    config, builder = parameters.config, model_graph(ENCODE)
    parts = _Parts(builder, parameters, config.encoder, "encoder", source)
    if config.mels:
        x = _sound(builder, parameters, source)
    else:
        x = parts.beginning(builder.input("embeddings", "fp16", (1, source, config.width)))
    rows = (config.encoder.heads, source) if config.relative else (1, 1)
    mask = builder.input("mask", "fp16", (1, *rows, source))
    for number in range(config.encoder.layers):
        x = parts.around(x, number, "self", partial(parts.to_itself, number=number, mask=mask))
        x = parts.around(x, number, "forward", partial(parts.forward, number=number))
    x = parts.ending(x)
    crossing = _Parts(builder, parameters, config.decoder, "decoder", source)
    keys, values = zip(*(crossing.seen(x, number, "cross") for number in range(config.decoder.layers)), strict=True)
    return builder.finish({"states": x, "source_keys": _together(builder, keys),
                           "source_values": _together(builder, values)})


def decoder(parameters: SequenceParameters, source: int, context: int) -> Graph:
    """Inputs, fp16: `embeddings` [1, 1, width]; `mask` [1, 1 or heads, 1, context + 1] (columns: the cache, then the
    token itself) and `cross_mask` [1, 1, 1, source], added to scores. States: see `state_shapes`. Outputs: `logits`
    [1, 1, vocabulary], `new_keys` and `new_values` of the token."""
    config, builder = parameters.config, model_graph(DECODE)
    parts = _Parts(builder, parameters, config.decoder, "decoder", 1)
    x = parts.beginning(builder.input("embeddings", "fp16", (1, 1, config.width)))
    mask = builder.input("mask", "fp16", (1, config.decoder.heads if config.relative else 1, 1, context + 1))
    cross_mask = builder.input("cross_mask", "fp16", (1, 1, 1, source))
    held = {name: builder.read(builder.state(name, "fp16", shape))
            for name, shape in state_shapes(config, source, context).items()}
    new: dict[str, list[Value]] = {"keys": [], "values": []}

    def own(row: Value, number: int) -> Value:
        found = dict(zip(("keys", "values"), parts.seen(row, number, "self"), strict=True))
        for name, value in found.items():
            new[name].append(value)
        keys = _joined(builder, _layer(builder, held["keys"], number), found["keys"], 3)
        values = _joined(builder, _layer(builder, held["values"], number), found["values"], 2)
        return parts.attention(row, number, "self", keys, values, mask)

    def other(row: Value, number: int) -> Value:
        keys, values = (_layer(builder, held[name], number) for name in ("cross_keys", "cross_values"))
        return parts.attention(row, number, "cross", keys, values, cross_mask)

    for number in range(config.decoder.layers):
        x = parts.around(x, number, "self", partial(own, number=number))
        x = parts.around(x, number, "cross", partial(other, number=number))
        x = parts.around(x, number, "forward", partial(parts.forward, number=number))
    logits = builder.single("linear", x=parts.ending(x), **parameters.head())
    return builder.finish({"logits": logits, "new_keys": _together(builder, new["keys"]),
                           "new_values": _together(builder, new["values"])})


class _Parts(RowLayers):
    """The parts of one side's layers."""

    def __init__(self, builder: GraphBuilder, parameters: SequenceParameters, stack: Stack, side: str,
                 tokens: int) -> None:
        super().__init__(builder, tokens)
        self.parameters, self.config = parameters, parameters.config
        self.stack, self.side = stack, side

    def beginning(self, x: Value) -> Value:
        """What is done to embeddings before the first layer."""
        name = self.parameters.side(self.side, "layernorm_embedding")
        return self.norm(x, name) if self.parameters.has(f"{name}.weight") else x

    def ending(self, x: Value) -> Value:
        """What is done behind the last layer."""
        for part in ("final_layer_norm", "layer_norm"):
            name = self.parameters.side(self.side, part)
            if self.parameters.has(f"{name}.weight"):
                return self.norm(x, name)
        return x

    def around(self, x: Value, number: int, part: str, inside: Callable[[Value], Value]) -> Value:
        """A part of a layer, with its normalisation before or behind and x added to what it gives."""
        name = self.parameters.layer(self.side, number, f"norm_{part}")
        if self.config.normed_first:
            return self.builder.single("add", x=x, y=inside(self.norm(x, name)))
        return self.norm(self.builder.single("add", x=x, y=inside(x)), name)

    def norm(self, x: Value, name: str) -> Value:
        """Layer normalisation, or of T5 by the root of the mean square."""
        held, epsilon = self.parameters.norm(name), max(self.config.epsilon, LEAST_EPSILON)
        if not self.config.relative:
            return self.builder.single("layer_norm", x=x, axes=[-1], epsilon=epsilon, **held)
        return self.builder.single("mul", x=self.rms(x, epsilon), y=held["gamma"])

    def to_itself(self, x: Value, number: int, mask: Value) -> Value:
        """Attention of every row to every row."""
        return self.attention(x, number, "self", *self.seen(x, number, "self"), mask)

    def seen(self, source: Value, number: int, part: str) -> tuple[Value, Value]:
        """What attention looks at: keys [1, heads, size, rows] and values [1, heads, rows, size]."""
        keys, values = (self.heads(self._linear(source, f"{part}.{kind}", number), self.stack.heads)
                        for kind in ("key", "value"))
        return self.turned_over(keys), values

    def attention(self, x: Value, number: int, part: str, keys: Value, values: Value, mask: Value) -> Value:
        """Attention of the rows of x; the mask is added to their scores."""
        query = self.heads(self._linear(x, f"{part}.query", number, self.config.query_scale), self.stack.heads)
        mixed = self.attended(query, keys, values, mask)
        name = self.parameters.layer(self.side, number, f"{part}.output")
        return self.builder.single("linear", x=mixed,
                                   **self.parameters.linear(name, self.config.width, mixed.shape[-1]))

    def forward(self, x: Value, number: int) -> Value:
        """The hidden part."""
        config, hidden = self.config, self.stack.hidden
        up = self._hidden(x, number, "up")
        if config.gated:
            gate = activated(self.builder, self._hidden(x, number, "gate"), config.activation)
            up = self.builder.single("mul", x=gate, y=up)
        else:
            up = activated(self.builder, up, config.activation)
        name = self.parameters.layer(self.side, number, "down")
        return self.builder.single("linear", x=up, **self.parameters.linear(name, config.width, hidden))

    def _hidden(self, x: Value, number: int, part: str) -> Value:
        name = self.parameters.layer(self.side, number, part)
        return self.builder.single("linear", x=x, **self.parameters.linear(name, self.stack.hidden, self.config.width))

    def _linear(self, x: Value, part: str, number: int, scale: float = 1.0) -> Value:
        inner, name = self.stack.heads * self.config.head_size, self.parameters.layer(self.side, number, part)
        return self.builder.single("linear", x=x, **self.parameters.linear(name, inner, self.config.width, scale))


def _sound(builder: GraphBuilder, parameters: SequenceParameters, source: int) -> Value:
    """Rows of a sound: two convolutions over its spectrogram, the second of which halves the rows, and positions."""
    config = parameters.config
    x, inputs = builder.input("features", "fp16", (1, config.mels, 2 * source)), config.mels
    for name, stride in (("conv1", 1), ("conv2", 2)):
        label = parameters.side("encoder", name)
        weight = parameters.half(f"{label}.weight", (config.width, inputs, 3))
        bias = parameters.half(f"{label}.bias", (config.width,))
        x = builder.single("conv", x=x, weight=weight, bias=bias, strides=[stride], pad=[1, 1], pad_type="custom")
        x, inputs = activated(builder, x, config.activation), config.width
    places = parameters.places("encoder")
    assert places is not None
    rows = builder.single("transpose", x=x, perm=(0, 2, 1))
    return builder.single("add", x=rows, y=places[None, :source].astype(np.float16))


def _together(builder: GraphBuilder, parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else builder.single("concat", values=tuple(parts), axis=0)


def _layer(builder: GraphBuilder, held: Value, number: int) -> Value:
    if held.shape[0] == 1:
        return held
    return builder.single("slice_by_index", x=held, begin=[number, 0, 0, 0], end=[number + 1, *held.shape[1:]])


def _joined(builder: GraphBuilder, held: Value, new: Value, axis: int) -> Value:
    return builder.single("concat", values=(held, new), axis=axis)
