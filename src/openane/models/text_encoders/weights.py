"""The weights of an encoder's checkpoint by our names, whatever its family calls them, as constants of the engine.

    words, positions, types: tables; embeddings.norm; project: rows to the width of the layers
    {query, key, value, mixed, output, up, gate_up, down, norm1, norm2} of each layer; mixed and gate_up are several in
    one; norm, distances, pooler
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.config_document import REMEDY
from openane.models.text_encoders.config import EncoderConfig
from openane.models.weights import required

_TABLES = {"words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
           "types": "embeddings.token_type_embeddings", "embeddings.norm": "embeddings.LayerNorm"}
_BERT_LAYER = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
               "output": "attention.output.dense", "norm1": "attention.output.LayerNorm", "up": "intermediate.dense",
               "down": "output.dense", "norm2": "output.LayerNorm"}
_WHOLES: Mapping[str, Mapping[str, str]] = {
    "bert": _TABLES | {"project": "embeddings_project", "pooler": "pooler.dense",
                       "distances": "encoder.relative_attention_bias"},
    "distilbert": _TABLES,
    "albert": _TABLES | {"project": "encoder.embedding_hidden_mapping_in", "pooler": "pooler"},
    "modernbert": {"words": "embeddings.tok_embeddings", "embeddings.norm": "embeddings.norm", "norm": "final_norm"},
}
_LAYERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bert": ("encoder.layer.", _BERT_LAYER),
    "mpnet": ("encoder.layer.", _BERT_LAYER | {"query": "attention.attn.q", "key": "attention.attn.k",
                                               "value": "attention.attn.v", "output": "attention.attn.o",
                                               "norm1": "attention.LayerNorm"}),
    "distilbert": ("transformer.layer.", {
        "query": "attention.q_lin", "key": "attention.k_lin", "value": "attention.v_lin",
        "output": "attention.out_lin", "norm1": "sa_layer_norm", "up": "ffn.lin1", "down": "ffn.lin2",
        "norm2": "output_layer_norm"}),
    "albert": ("encoder.albert_layer_groups.", {
        "query": "attention.query", "key": "attention.key", "value": "attention.value", "output": "attention.dense",
        "norm1": "attention.LayerNorm", "up": "ffn", "down": "ffn_output", "norm2": "full_layer_layer_norm"}),
    "modernbert": ("layers.", {"mixed": "attn.Wqkv", "output": "attn.Wo", "norm1": "attn_norm", "gate_up": "mlp.Wi",
                               "down": "mlp.Wo", "norm2": "mlp_norm"}),
}
_PREFIXES = ("", "bert.", "roberta.", "distilbert.", "electra.", "albert.", "mpnet.", "model.")
_OLDER = {"weight": "gamma", "bias": "beta"}
_BUFFERS = re.compile(r".*(position_ids|inv_freq)")


class EncoderWeights:
    """Constants are made once and shared by functions of several lengths. FormatError when a weight is missing, has
    another shape than the configuration asks for, or holds what fp16 does not."""

    def __init__(self, config: EncoderConfig, tensors: Mapping[str, np.ndarray]) -> None:
        """UnsupportedError for a tensor of a layer that the family does not compute with."""
        self.config, self._tensors = config, tensors
        self._wholes = _WHOLES.get(config.kind, _WHOLES["bert"])
        self._layer, self._parts = _LAYERS.get(config.kind, _LAYERS["bert"])
        self._made: dict[str, np.ndarray] = {}
        words = f"{self._wholes['words']}.weight"
        self._prefix = next((prefix for prefix in _PREFIXES if prefix + words in tensors), "")
        self._require_known()

    def layer(self, number: int, part: str) -> str:
        """The checkpoint's name of a part of a layer."""
        return f"{self._prefix}{self._layer}{self.config.places[number]}.{self._parts[part]}"

    def whole(self, part: str) -> str:
        """The checkpoint's name of a part outside the layers; of one that the family has not, none there is."""
        return f"{self._prefix}{self._wholes.get(part, 'none.' + part)}"

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a part's weight."""
        return f"{name}.weight" in self._tensors

    def table(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """Rows the host looks up, float32."""
        return self._read(f"{name}.weight", shape).astype(np.float32)

    def matrix(self, names: Sequence[str], outputs: int, inputs: int, scale: float = 1.0) -> np.ndarray:
        """Matrices [outputs, inputs] one below the other, the first `scale` times itself, fp16."""
        key = "+".join(names)
        if key not in self._made:
            parts = [self._read(f"{name}.weight", (outputs, inputs)) for name in names]
            self._made[key] = np.concatenate([parts[0] * np.float32(scale), *parts[1:]]).astype(np.float16)
        return self._made[key]

    def bias(self, names: Sequence[str], outputs: int, scale: float = 1.0) -> np.ndarray | None:
        """Their biases one after another, fp16; None where there are none."""
        if f"{names[0]}.bias" not in self._tensors:
            return None
        parts = [self._read(f"{name}.bias", (outputs,)) for name in names]
        return np.concatenate([parts[0] * np.float32(scale), *parts[1:]]).astype(np.float16)

    def norm(self, name: str, width: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Gains and offsets of a layer normalisation, fp16; None where it has no offsets."""
        gains, offsets = (self._named(name, kind) for kind in ("weight", "bias"))
        return (self._read(gains, (width,)).astype(np.float16),
                self._read(offsets, (width,)).astype(np.float16) if offsets in self._tensors else None)

    def _named(self, name: str, kind: str) -> str:
        """Old checkpoints call gains and offsets gamma and beta."""
        older = f"{name}.{_OLDER[kind]}"
        return older if older in self._tensors else f"{name}.{kind}"

    def _require_known(self) -> None:
        beginning = self._prefix + self._layer
        kinds = {f".{part}.{kind}" for part in self._parts.values() for kind in ("weight", "bias", "gamma", "beta")}
        places = {f"{beginning}{place}" for place in self.config.places}
        for name in self._tensors:
            if not name.startswith(beginning) or _BUFFERS.fullmatch(name):
                continue
            ending = next((kind for kind in sorted(kinds, key=len, reverse=True) if name.endswith(kind)), None)
            if ending is None:
                raise UnsupportedError(f"tensor {name!r}", f"no layer of {self.config.kind} has one", remedy=REMEDY)
            if name.removesuffix(ending) not in places:
                raise FormatError(f"{name} of the checkpoint", expected=f"layers {', '.join(self.config.places)}",
                                  found=name.removesuffix(ending).removeprefix(beginning))

    def _read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return required(self._tensors, name, shape).astype(np.float32)
