"""BERT by the description that decoders have: weights in fp16, 8 or 4 bits, one function on the device at a time where
there is little room, steps that are counted. It gives states; every token of a text is mixed with every other.

`text_encoders` runs a BERT, too: with tasks, pairs of texts and vectors, and eight families more, whose variants
`Config` does not describe. Its weights are fp16, and all its functions are on the device.

The host looks embeddings up (words, positions and types, added in float32) and makes the mask; the engine does the
rest: normalised embeddings, layers that are normalised after each part, and the pooler where the checkpoint has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.devices import Device
from openane.errors import UnsupportedError
from openane.graph import Graph, Value
from openane.models.activations import model_graph
from openane.models.config import Config
from openane.models.layers import FAR, CheckpointParameters, ModelLayers, Precision
from openane.models.naming import Weights
from openane.models.runner import Residence, runner
from openane.models.stepped import SteppedModel
from openane.models.steps import ModelStep
from openane.models.tokenizer import Tokenizer
from openane.models.tokens import chosen_lengths, require_text, whole_numbers

HOST = ("rows of the tables of words, positions and types, added in float32", "the mask: which rows hold tokens")
"""What an encoding leaves to the host."""
DEFAULT_LENGTHS = (128,)


@dataclass(frozen=True, slots=True)
class Encoded:
    """`states` float32 [tokens, width]; `pooled` float32 [width], None where the checkpoint has no pooler."""

    states: np.ndarray
    pooled: np.ndarray | None


def build(parameters: CheckpointParameters, step: ModelStep, pooled: bool) -> Graph:
    """Inputs, fp16: `embeddings` [1, tokens, width], `mask` [1, 1, 1, tokens]. Outputs: `states` [1, tokens, width],
    `pooled` [1, 1, width] (tanh of a linear layer on the first token) if asked for."""
    config, builder = parameters.config, model_graph(step.name)
    layers = ModelLayers(builder, parameters, step.tokens)
    x = builder.input("embeddings", "fp16", (1, step.tokens, config.width))
    mask = builder.input("mask", "fp16", (1, 1, 1, step.tokens))
    x = layers.norm(x, "embedding.norm")
    for number in range(config.layers):
        name = f"layers.{number}"
        x = layers.norm(builder.single("add", x=x, y=_attention(layers, x, mask, name)), f"{name}.norm1")
        x = layers.norm(builder.single("add", x=x, y=layers.feed_forward(x, name)), f"{name}.norm2")
    outputs: dict[str, Value] = {"states": x}
    if pooled:
        first = layers.part(x, 1, 0, 1)
        outputs["pooled"] = builder.single("tanh", x=layers.linear(first, "pooler", {"pooler.weight": config.width}))
    return builder.finish(outputs)


def _attention(layers: ModelLayers, x: Value, mask: Value, name: str) -> Value:
    config = layers.config
    size = config.heads * config.head_size
    scales = {f"{name}.query.weight": config.head_size ** -0.5}
    mixed = layers.linear(x, f"{name}.attention",
                          {f"{name}.{part}.weight": size for part in ("query", "key", "value")}, scales)
    heads = layers.heads(mixed, 3 * config.heads)
    query, keys, values = (layers.part(heads, 1, place * config.heads, (place + 1) * config.heads)
                           for place in range(3))
    return layers.linear(layers.attention(query, layers.turned_over(keys), values, mask), f"{name}.output",
                         {f"{name}.output.weight": config.width})


class TextEncoder(SteppedModel):
    """One encoder on one device. Close it, or use it in a `with` statement."""

    def __init__(self, config: Config, weights: Weights, device: str | Device | None = None,
                 lengths: Sequence[int] = DEFAULT_LENGTHS, precision: Precision = Precision.FP16,
                 tokenizer: Tokenizer | None = None, residence: Residence = Residence.AUTO,
                 target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> None:
        """Compiles a function for every one of `lengths` tokens, or takes it from the compile `cache` (True: the
        user's own; a folder). Errors as for `LanguageModel`."""
        if config.decoder:
            raise UnsupportedError(f"a {config.family} model", "continues texts; it is no encoder",
                                   remedy="openane.models.load")
        wanted = chosen_lengths(lengths, config.context)
        self.config, self.longest = config, wanted[-1]
        pooled = "pooler.weight" in weights
        parameters = CheckpointParameters(config, weights, precision)
        steps = [ModelStep(f"encode_{length}", length, length, length, False) for length in wanted]
        self._rows, self._positions = parameters.embedding(), parameters.positions()
        self._types = parameters.table("types.weight", (config.types, config.width)).astype(np.float32)
        super().__init__(device, tokenizer, lambda opened: runner(
            opened, parameters, steps, target, residence,
            lambda parameters, step: build(parameters, step, pooled), cache))

    def encode(self, text: str | Sequence[int], types: Sequence[int] | None = None) -> Encoded:
        """A text, or tokens with the segment each belongs to (default: all to the first). ContextFull when it is
        longer than the longest function, GenerationError when a token or a segment is unknown."""
        tokens = self._tokens(text)
        segments = [0] * len(tokens) if types is None else whole_numbers(types, "segments")
        require_text(tokens, segments, (self.config.vocabulary, self.config.types), self.longest)
        step = min((step for step in self.runner.steps if step.tokens >= len(tokens)), key=lambda step: step.tokens)
        count = len(tokens)
        rows = np.zeros((1, step.tokens, self.config.width), np.float16)
        assert self._positions is not None
        rows[0, :count] = self._rows[tokens].astype(np.float32) + self._positions[:count] + self._types[segments]
        mask = np.full((1, 1, 1, step.tokens), FAR, np.float16)
        mask[..., :count] = 0
        outputs = self.runner.run(step.name, {"embeddings": rows, "mask": mask})
        pooled = outputs.get("pooled")
        return Encoded(outputs["states"][0, :count].astype(np.float32),
                       None if pooled is None else pooled.reshape(-1).astype(np.float32))

    def _tokens(self, text: str | Sequence[int]) -> list[int]:
        return self._words().encode(text) if isinstance(text, str) else whole_numbers(text)
