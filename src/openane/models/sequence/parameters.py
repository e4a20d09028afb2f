"""The weights of a sequence-to-sequence checkpoint by what they are for, in fp16, whatever the family calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.errors import FormatError
from openane.models.sequence.config import SINUSOIDAL, SequenceConfig
from openane.models.weights import required

Operands = dict[str, Any]
"""Constants by the name of the operand they are for."""
T5_PARTS = {"self": "layer.0.SelfAttention", "cross": "layer.1.EncDecAttention", "norm_self": "layer.0.layer_norm",
            "norm_cross": "layer.1.layer_norm", "query": "q", "key": "k", "value": "v", "output": "o"}
BART_PARTS = {"self": "self_attn", "cross": "encoder_attn", "norm_self": "self_attn_layer_norm",
              "norm_cross": "encoder_attn_layer_norm", "query": "q_proj", "key": "k_proj", "value": "v_proj",
              "output": "out_proj", "up": "fc1", "down": "fc2", "norm_forward": "final_layer_norm"}
ENDS = {"encoder": 1, "decoder": 2}
"""The number of T5's feed-forward part in a layer of each side."""


class SequenceParameters:
    """Weights by side (`encoder`, `decoder`), layer and part. FormatError names one that is missing, of another shape
    than the configuration asks for, or beyond fp16."""

    def __init__(self, config: SequenceConfig, tensors: Mapping[str, np.ndarray]) -> None:
        self.config, self._tensors = config, tensors
        self._prefix = "model." if any(name.startswith("model.") for name in tensors) else ""

    def layer(self, side: str, number: int, part: str) -> str:
        """The name of a layer's part in the checkpoint."""
        if not self.config.relative:
            return f"{self._prefix}{side}.layers.{number}.{'.'.join(BART_PARTS[p] for p in part.split('.'))}"
        end = f"layer.{ENDS[side]}"
        parts = T5_PARTS | {"norm_forward": f"{end}.layer_norm", "down": f"{end}.DenseReluDense.wo",
                            "up": f"{end}.DenseReluDense.{'wi_1' if self.config.gated else 'wi'}",
                            "gate": f"{end}.DenseReluDense.wi_0"}
        return f"{self._prefix}{side}.block.{number}.{'.'.join(parts[p] for p in part.split('.'))}"

    def linear(self, name: str, outputs: int, inputs: int, scale: float = 1.0) -> Operands:
        """Weight and, where there is one, bias of a linear layer, times `scale`."""
        held: Operands = {"weight": self.half(f"{name}.weight", (outputs, inputs), scale)}
        if self.has(f"{name}.bias"):
            held["bias"] = self.half(f"{name}.bias", (outputs,), scale)
        return held

    def norm(self, name: str) -> Operands:
        """Gain and, where there is one, offset of a normalisation."""
        found: Operands = {"gamma": self.half(f"{name}.weight", (self.config.width,))}
        if self.has(f"{name}.bias"):
            found["beta"] = self.half(f"{name}.bias", (self.config.width,))
        return found

    def side(self, side: str, part: str) -> str:
        """The name of a part of the whole encoder or decoder."""
        return f"{self._prefix}{side}.{part}"

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a tensor."""
        return name in self._tensors

    def embedding(self) -> np.ndarray:
        """The table of tokens, as it is stored, [vocabulary, width]."""
        config = self.config
        for name in ("shared.weight", f"{self._prefix}shared.weight", self.side("decoder", "embed_tokens.weight"),
                     self.side("encoder", "embed_tokens.weight"), "lm_head.weight", "proj_out.weight"):
            if self.has(name):
                return self.read(name, (config.vocabulary, config.width))
        raise FormatError("a weight is missing", expected="shared.weight", found=f"{len(self._tensors)} others")

    def head(self) -> Operands:
        """What scores the vocabulary: weight and, where there is one, bias."""
        config = self.config
        shape = config.vocabulary, config.width
        name = next((each for each in ("lm_head.weight", "proj_out.weight") if self.has(each)), "")
        table = self.read(name, shape) if name else self.embedding()
        held: Operands = {"weight": (table * np.float32(config.head_scale)).astype(np.float16)}
        bias = next((each for each in ("final_logits_bias", "model.final_logits_bias") if self.has(each)), "")
        if bias:
            held["bias"] = self.half(bias, (1, config.vocabulary))[0]
        return held

    def places(self, side: str) -> np.ndarray | None:
        """The table of positions of one side from the first on, float32 [positions, width]; None where positions are
        biases of scores."""
        config = self.config
        if config.relative:
            return None
        count = config.source_positions if side == "encoder" else config.positions
        name = self.side(side, "embed_positions.weight")
        if not self.has(name) and config.family in SINUSOIDAL:
            return sinusoids(count, config.width)
        return np.asarray(self.read(name, (count + config.offset, config.width))[config.offset:], np.float32)

    def biases(self, side: str) -> np.ndarray:
        """The biases of relative positions, float32 [buckets, heads]."""
        stack = self.config.encoder if side == "encoder" else self.config.decoder
        name = f"{self.layer(side, 0, 'self')}.relative_attention_bias.weight"
        return np.asarray(self.read(name, (self.config.buckets, stack.heads)), np.float32)

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A tensor of the checkpoint as it is stored."""
        return required(self._tensors, name, shape)

    def half(self, name: str, shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
        """A tensor times a scale, which is 1 at the most, in fp16."""
        return (self.read(name, shape) * np.float32(scale)).astype(np.float16)


def sinusoids(count: int, width: int) -> np.ndarray:
    """Sines of positions in the first half of the columns, cosines in the second, float32 [count, width]."""
    angles = np.arange(count)[:, None] / np.power(10000, 2 * (np.arange(width) // 2) / width)
    made = np.empty((count, width), np.float32)
    half = (width + 1) // 2
    made[:, :half], made[:, half:] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return made
