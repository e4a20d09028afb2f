"""The weights of a checkpoint under one set of names, whatever the family calls them.

    embedding.weight [vocabulary, width], positions.weight [context, width], types.weight [types, width]
    layers.N.{query, key, value, output, gate, up, down}.weight [outputs, inputs] and .bias [outputs]
    layers.N.{norm1, norm2}, norm, embedding.norm: .weight and .bias [width]
    layers.N.{query_norm, key_norm}.weight [head size]
    head.weight [vocabulary, width], pooler.weight [width, width], pooler.bias

Tensors are read when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from openane.errors import UnsupportedError

Weights = Mapping[str, np.ndarray]

LLAMA_PARTS = {"self_attn.q_proj": "query", "self_attn.k_proj": "key", "self_attn.v_proj": "value",
               "self_attn.o_proj": "output", "mlp.gate_proj": "gate", "mlp.up_proj": "up", "mlp.down_proj": "down",
               "self_attn.q_norm": "query_norm", "self_attn.k_norm": "key_norm",
               "input_layernorm": "norm1", "post_attention_layernorm": "norm2"}
LINEAR = frozenset(("query", "key", "value", "output", "gate", "up", "down"))
"""Parts of a layer that multiply by a matrix."""
HEAD_NORMS = frozenset(("query_norm", "key_norm"))
"""Normalisations within each head, which few models have."""
_LLAMA_WHOLE = {"embed_tokens": "embedding", "norm": "norm", "lm_head": "head"}
_GPT2_PARTS = {"ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "output", "mlp.c_fc": "up", "mlp.c_proj": "down"}
_GPT2_WHOLE = {"wte": "embedding", "wpe": "positions", "ln_f": "norm", "lm_head": "head"}
_BERT_PARTS = {"attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
               "attention.output.dense": "output", "attention.output.LayerNorm": "norm1",
               "intermediate.dense": "up", "output.dense": "down", "output.LayerNorm": "norm2"}
_BERT_WHOLE = {"embeddings.word_embeddings": "embedding", "embeddings.position_embeddings": "positions",
               "embeddings.token_type_embeddings": "types", "embeddings.LayerNorm": "embedding.norm",
               "pooler.dense": "pooler"}
_NAMES = {"llama": (LLAMA_PARTS, _LLAMA_WHOLE), "gpt2": (_GPT2_PARTS, _GPT2_WHOLE), "bert": (_BERT_PARTS, _BERT_WHOLE)}
_LAYER = re.compile(r"(?:.*\.)?(?:layers|h|layer)\.(\d+)\.(.+)\.(\w+)")
_WHOLE = re.compile(r"(?:model\.|transformer\.|bert\.)?(.+)\.(weight|bias|gamma|beta)")
_KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_BUFFERS = {"self_attn.rotary_emb.inv_freq", "attn.bias", "attn.masked_bias"}
"""Tensors of a layer that old checkpoints hold and that are computed here."""
_TRANSPOSED = ("output.weight", "up.weight", "down.weight")


class Renamed(Mapping[str, np.ndarray]):
    """Tensors of a checkpoint by our names, read while it is open. What follows the layers, such as a classifier, is
    left out."""

    def __init__(self, family: str, tensors: Weights) -> None:
        """UnsupportedError for a tensor of a layer that the family does not compute with."""
        self._tensors = tensors
        self._makers: dict[str, Callable[[], np.ndarray]] = {}
        parts, wholes = _NAMES[family]
        for name in tensors:
            if layer := _LAYER.fullmatch(name):
                number, part, kind = layer[1], layer[2], _KINDS.get(layer[3])
                if family == "gpt2" and part == "attn.c_attn" and kind:
                    self._split(name, number, kind)
                elif part in parts and kind:
                    ours = f"{parts[part]}.{kind}"
                    turned = family == "gpt2" and ours in _TRANSPOSED
                    self._makers[f"layers.{number}.{ours}"] = self._maker(name, turned)
                elif f"{part}.{layer[3]}" not in _BUFFERS:
                    raise UnsupportedError(f"tensor {name!r}", f"no layer of the {family} family has one",
                                           remedy="import the model from ONNX or PyTorch instead")
            elif (whole := _WHOLE.fullmatch(name)) and whole[1] in wholes:
                self._makers[f"{wholes[whole[1]]}.{_KINDS[whole[2]]}"] = self._maker(name, False)

    def _maker(self, name: str, turned: bool) -> Callable[[], np.ndarray]:
        return lambda: self._tensors[name].T if turned else self._tensors[name]

    def _split(self, name: str, number: str, kind: str) -> None:
        """GPT-2 has query, key and value as columns of one matrix [width, 3 * width]."""
        for place, part in enumerate(("query", "key", "value")):
            def make(place: int = place) -> np.ndarray:
                whole = self._tensors[name]
                third = whole.shape[-1] // 3
                return whole[..., place * third:(place + 1) * third].T

            self._makers[f"layers.{number}.{part}.{kind}"] = make

    def __getitem__(self, name: str) -> np.ndarray:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
