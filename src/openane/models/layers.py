"""The parts of decoders and of BERT that have weights, over rows: [1, tokens, width] in and out, fp16.

`CheckpointParameters` turns a checkpoint's weights into constants once, so that several functions of a model share the
arrays. Weights may be kept as int8 numbers with a scale per output, or as 4-bit indices into a palette: operations on
constants (constexpr_...) say so in the graph, and compilation folds them, because the engine's coefficients are fp16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from openane.graph import TensorType, Value
from openane.models.activations import activated
from openane.models.config import Config, chosen
from openane.models.quantise import palette, symmetric
from openane.models.rows import RowLayers
from openane.models.weights import required
from openane.ops.build import GraphBuilder

LEAST_EPSILON = 6e-8
"""fp16 holds no smaller epsilon."""
FAR = -30000.0
"""What the host puts into a mask where a token may not look."""


class Precision(StrEnum):
    """How weight matrices are held: as they are, with 8 bits, or with 4 bits and a palette."""

    FP16 = "fp16"
    INT8 = "int8"
    PALETTE4 = "palette4"


class CheckpointParameters:
    """The weights of one checkpoint as constants. Names are those of `naming`; FormatError when one is missing or has
    another shape than the configuration asks for."""

    def __init__(self, config: Config, weights: Mapping[str, np.ndarray],
                 precision: Precision = Precision.FP16) -> None:
        self.config, self.precision = config, chosen(Precision, precision)
        self._weights = weights
        self._made: dict[str, dict[str, np.ndarray]] = {}

    def vector(self, name: str, size: int) -> np.ndarray:
        """A bias, gain or offset: fp16 [size]."""
        return self._half(name, (size,))

    def table(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """An embedding table, fp16."""
        return self._half(name, shape)

    def embedding(self) -> np.ndarray:
        """The table of embeddings the host looks tokens up in, fp16 [vocabulary, width]."""
        return self.table("embedding.weight", (self.config.vocabulary, self.config.width))

    def positions(self) -> np.ndarray | None:
        """The table of learned positions, float32 [context, width]; None where positions are of another kind."""
        if self.config.positions != "learned":
            return None
        return np.asarray(self._read("positions.weight", (self.config.context, self.config.width)), np.float32)

    def gain(self, norm: str | None) -> np.ndarray | None:
        """The gains of an RMS normalisation before a part, float32 [width]; None for another one, or none."""
        if norm is None or self.config.norm != "rms" or not (self.config.norms_before or norm == "norm"):
            return None
        return np.asarray(self._read(f"{norm}.weight", (self.config.width,)), np.float32)

    def matrix(self, name: str, parts: Mapping[str, tuple[int, int]], scales: Mapping[str, float],
               after: str | None) -> dict[str, np.ndarray]:
        """Matrices `parts` (name to [outputs, inputs]) one below the other, each times its factor of `scales` and the
        gains of the normalisation before it, in the chosen precision: the operands of the operation that gives the
        matrix, kept under `name`."""
        if name not in self._made:
            gain = self.gain(after)
            whole = np.empty((sum(rows for rows, _ in parts.values()), next(iter(parts.values()))[1]), np.float32)
            place = 0
            for part, shape in parts.items():
                rows = whole[place:place + shape[0]]
                np.multiply(self._read(part, shape), np.float32(scales.get(part, 1.0)), out=rows, dtype=np.float32)
                if gain is not None:
                    rows *= gain
                place += shape[0]
            self._made[name] = self._held(whole)
        return self._made[name]

    def bias(self, parts: Mapping[str, int], scales: Mapping[str, float]) -> np.ndarray | None:
        """Biases one after the other, fp16, zeros where a part has none; None when none has one."""
        kinds = {part: part.removesuffix(".weight") + ".bias" for part in parts}
        named = {part: name for part, name in kinds.items() if name.split(".")[-2] in self.config.biases}
        if not named:
            return None
        return np.concatenate([self._read(named[part], (size,)) * np.float32(scales.get(part, 1.0))
                               if part in named else np.zeros(size, np.float32)
                               for part, size in parts.items()]).astype(np.float16)

    def forget(self) -> None:
        """Drops the matrices and vectors that were made, embeddings apart."""
        self._made = {name: made for name, made in self._made.items() if "" in made and made[""].ndim > 1}

    def _held(self, whole: np.ndarray) -> dict[str, np.ndarray]:
        if self.precision is Precision.INT8:
            return symmetric(whole)
        if self.precision is Precision.PALETTE4:
            return palette(whole)
        return {"weight": _halves(whole)}

    def _half(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in self._made:
            self._made[name] = {"": _halves(self._read(name, shape))}
        return self._made[name][""]

    def _read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return required(self._weights, name, shape)


class ModelLayers(RowLayers):
    """Writes a model's parts into a builder. `tokens` rows are computed at a time."""

    def __init__(self, builder: GraphBuilder, parameters: CheckpointParameters, tokens: int) -> None:
        super().__init__(builder, tokens)
        self.parameters, self.config = parameters, parameters.config

    def norm(self, x: Value, name: str) -> Value:
        """RMS normalisation of the last axis without its gains, which are in the weights of what reads it; layer
        normalisation with them."""
        width, builder = self.config.width, self.builder
        epsilon = self.config.epsilon * self.config.stream_scale ** 2
        if self.config.norm == "rms":
            return self._rms(x, name, epsilon)
        vectors: dict[str, Any] = {operand: self.parameters.vector(f"{name}.{kind}", width)
                   for operand, kind in (("gamma", "weight"), ("beta", "bias")) if kind in self.config.norm_vectors}
        return builder.single("layer_norm", name, x=x, axes=[-1], epsilon=max(epsilon, LEAST_EPSILON), **vectors)

    def norm_after(self, x: Value, name: str) -> Value:
        """The RMS normalisation behind a part of a layer, with its gains: nothing that reads it could have them."""
        gains = self.parameters.vector(f"{name}.weight", self.config.width).astype(np.float32)
        gains *= self.config.residual_scale * self.config.stream_scale
        return self.builder.single("mul", x=self._rms(x, name), y=gains.astype(np.float16))

    def normed_heads(self, x: Value, name: str) -> Value:
        """RMS normalisation within each head of queries and then keys, [1, heads + kv heads, tokens, size], with their
        gains; those of queries scale the scores, too."""
        config = self.config
        gains = np.empty((1, x.shape[1], 1, config.head_size), np.float32)
        gains[:, :config.heads] = self.parameters.vector(f"{name}.query_norm.weight", config.head_size)
        gains[:, :config.heads] *= config.score_scale
        gains[:, config.heads:] = self.parameters.vector(f"{name}.key_norm.weight", config.head_size)
        return self.builder.single("mul", x=self._rms(x, f"{name}.heads"), y=gains.astype(np.float16))

    def normed_rows(self, x: Value, name: str) -> Value:
        """RMS normalisation of all queries and of all keys, [1, tokens, queries + keys + values], with their gains;
        those of queries scale the scores, too. Values stay."""
        sizes = {part: self.config.sizes[part][0] for part in ("query", "key")}
        scales = {"query": self.config.score_scale, "key": 1.0}
        rows, start = [], 0
        for part, size in sizes.items():
            normal = self._rms(self.part(x, 2, start, start + size), f"{name}.{part}_norm")
            gains = self.parameters.vector(f"{name}.{part}_norm.weight", size).astype(np.float32) * scales[part]
            rows.append(self.builder.single("mul", x=normal, y=gains.astype(np.float16)))
            start += size
        return self.builder.single("concat", values=(*rows, self.part(x, 2, start, x.shape[2])), axis=2)

    def _rms(self, x: Value, name: str, epsilon: float | None = None) -> Value:
        return self.rms(x, max(self.config.epsilon if epsilon is None else epsilon, LEAST_EPSILON), name)

    def linear(self, x: Value, name: str, parts: Mapping[str, int],
               scales: Mapping[str, float] | None = None, after: str | None = None) -> Value:
        """One linear layer that computes `parts` (weight names to outputs) side by side over the last axis, each times
        its factor of `scales`; `after` names the normalisation it reads."""
        factors = scales or {}
        inputs = x.shape[-1]
        weight = self._weight(name, {part: (outputs, inputs) for part, outputs in parts.items()}, factors, after)
        return self.builder.single("linear", name, x=x, weight=weight, bias=self.parameters.bias(parts, factors))

    def attention(self, query: Value, keys: Value, values: Value, mask: Value) -> Value:
        """As `attended`, with the configuration's cap."""
        return self.attended(query, keys, values, mask, self.config.score_cap)

    def feed_forward(self, x: Value, name: str) -> Value:
        """The hidden part and what comes out of it."""
        return self.down(self.hidden(x, name), name)

    def hidden(self, x: Value, name: str) -> Value:
        """The hidden numbers: gated (SwiGLU and its like) or not."""
        config = self.config
        up = self.linear(x, f"{name}.up", {f"{name}.up.weight": config.hidden}, after=f"{name}.{config.feed_norm}")
        if config.gated:
            return self.builder.single("mul", x=self.gate(self.gate_input(x, name)), y=up)
        return self.activation(up)

    def down(self, hidden: Value, name: str) -> Value:
        """The hidden numbers as a part of the sum."""
        weight = f"{name}.down.weight"
        return self.linear(hidden, f"{name}.down", {weight: self.config.width}, {weight: self.config.output_scale})

    def gate_input(self, x: Value, name: str) -> Value:
        """What `gate` takes: the gate's linear layer, halved where it is a SiLU's (in its weights)."""
        weight = f"{name}.gate.weight"
        return self.linear(x, f"{name}.gate", {weight: self.config.hidden}, {weight: gate_scale(self.config)},
                           f"{name}.{self.config.feed_norm}")

    def gate(self, x: Value) -> Value:
        """The activation of a gate. SiLU of 2x is x * (1 + tanh x): one more task than its table, with a tenth of the
        table's error (0.1 % instead of 1 % of what passes; measured in the simulator on normal numbers)."""
        if self.config.activation != "silu":
            return self.activation(x)
        turn = self.builder.single("add", x=self.builder.single("tanh", x=x), y=1.0)
        return self.builder.single("mul", x=x, y=turn)

    def activation(self, x: Value) -> Value:
        """The configuration's function."""
        return activated(self.builder, x, self.config.activation)

    def _weight(self, name: str, parts: Mapping[str, tuple[int, int]], scales: Mapping[str, float],
                after: str | None) -> Value:
        held = self.parameters.matrix(name, parts, scales, after)
        if "weight" in held:
            return self.builder.constant(held["weight"], f"{name}.weight")
        if "lut" not in held:
            return self.builder.single("constexpr_blockwise_shift_scale", f"{name}.weight", data=held["data"],
                                       scale=held["scale"])
        plain = self.builder.constant(held["indices"], f"{name}.indices")
        indices = replace(plain, type=TensorType("uint4", plain.shape))
        return self.builder.single("constexpr_lut_to_dense", f"{name}.weight", indices=indices, lut=held["lut"])


def gate_scale(config: Config) -> float:
    """What `ModelLayers.gate` wants its input multiplied by."""
    return 0.5 if config.activation == "silu" else 1.0


def _halves(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float16)
