"""The weights of a checkpoint under one set of names, whatever the family calls them.

    embedding.weight [vocabulary, width], positions.weight [context, width], types.weight [types, width]
    layers.N.{query, key, value, output, gate, up, down, router}.weight [outputs, inputs] and .bias [outputs]
    layers.N.{norm1, norm2, after1, after2}, norm, embedding.norm: .weight and .bias [width]
    layers.N.{query_norm, key_norm}.weight [head size, or all heads' elements]
    head.weight [vocabulary, width], head.bias, pooler.weight [width, width], pooler.bias

Rows of `query`, `key` and their normalisations are in the order of `rope`; those of `gate` and `up`, and columns of
`down`, are one expert's after another's. Tensors are read when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.config import Config
from openane.models.config_document import REMEDY
from openane.models.rope import order

Weights = Mapping[str, np.ndarray]

LLAMA_PARTS = {"self_attn.q_proj": "query", "self_attn.k_proj": "key", "self_attn.v_proj": "value",
               "self_attn.o_proj": "output", "mlp.gate_proj": "gate", "mlp.up_proj": "up", "mlp.down_proj": "down",
               "self_attn.q_norm": "query_norm", "self_attn.k_norm": "key_norm",
               "input_layernorm": "norm1", "post_attention_layernorm": "norm2"}
LINEAR = frozenset(("query", "key", "value", "output", "gate", "up", "down"))
"""Parts of a layer that multiply by a matrix, and that adapters change."""
HEAD_NORMS = frozenset(("query_norm", "key_norm"))
"""Normalisations of queries and keys, which few models have."""
_OF_IMAGES = re.compile(r"(?:^|\.)(?:vision_tower|vision_model|multi_modal_projector)\.")
NORMS = re.compile(r"norm|after")
"""In the names of normalisations."""
_LAYER = re.compile(r"(?:.*\.)?(?:layers|h|layer|blocks)\.(\d+)\.(.+)\.(\w+)")
_EXPERT = re.compile(r"\bexperts\.(\d+)\b")
_WHOLE = re.compile(r"(?:(?:model\.)?language_model\.(?:model\.)?|(?:model\.)?decoder\.|model\.|transformer\.|bert\.|"
                    r"gpt_neox\.)?(.+)\.(weight|bias|gamma|beta)")
_KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
SHARED = 1 << 30
"""The number of the expert that every token takes: it is the last."""
_BUFFERS = {"attn.causal_mask", "self_attn.rotary_emb.inv_freq", "attn.bias", "attn.masked_bias", "attention.bias",
            "attention.masked_bias", "attention.rotary_emb.inv_freq", "attn.attention.bias",
            "attn.attention.masked_bias", "self_attention.rotary_emb.inv_freq"}
"""Tensors of a layer that old checkpoints hold and that are computed here."""


@dataclass(frozen=True, slots=True)
class FamilyNames:
    """What a family calls its weights: `parts` of a layer and `wholes` outside of the layers, theirs to ours; experts
    have their number after `experts.`, `#` here.

    `fused`: tensors that hold several of ours, one below the other, or (`grouped`) in each of `groups` one below the
    other (0: for each head of keys its queries, its key and its value). `shared`: parts of the expert that every token
    takes. `inputs_first`: ours whose matrices lie the other way round. `gain`: what gains are counted from (1 where a
    checkpoint has a gain less 1). `positions`: rows of learned positions that belong to no token.
    """

    parts: Mapping[str, str]
    wholes: Mapping[str, str]
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grouped: bool = False
    groups: int = 0
    shared: Mapping[str, str] = field(default_factory=dict)
    inputs_first: frozenset[str] = frozenset()
    gain: float = 0.0
    positions: int = 0


class Renamed(Mapping[str, np.ndarray]):
    """Tensors of a checkpoint by our names, read while it is open. What follows the layers, such as a classifier, is
    left out."""

    def __init__(self, config: Config, names: FamilyNames, tensors: Weights) -> None:
        """UnsupportedError for a tensor of a layer that the family does not compute with."""
        self._config, self._names, self._tensors = config, names, tensors
        self._makers: dict[str, Callable[[], np.ndarray]] = {}
        self._experts: dict[str, dict[int, str]] = {}
        self._order = order(config.rope, config.head_size) if config.positions == "rotary" else None
        for name in tensors:
            if _OF_IMAGES.search(name):
                continue
            if layer := _LAYER.fullmatch(name):
                self._add(name, layer[1], layer[2], layer[3])
            elif (whole := _WHOLE.fullmatch(name)) and whole[1] in names.wholes:
                self._makers[f"{names.wholes[whole[1]]}.{_KINDS[whole[2]]}"] = self._maker(name, names.wholes[whole[1]])
        for ours, numbered in self._experts.items():
            self._makers[ours] = self._joined(ours, [numbered[number] for number in sorted(numbered)])

    def _add(self, name: str, number: str, part: str, written: str) -> None:
        names, kind = self._names, _KINDS.get(written)
        expert = _EXPERT.search(part)
        part = part if expert is None else _EXPERT.sub("experts.#", part)
        if kind and part in names.fused:
            for ours in names.fused[part]:
                self._makers[f"layers.{number}.{ours}.{kind}"] = self._divided(name, names.fused[part], ours)
        elif kind and part in names.shared:
            self._experts.setdefault(f"layers.{number}.{names.shared[part]}.{kind}", {})[SHARED] = name
        elif kind and part in names.parts:
            ours = names.parts[part]
            if expert is None and ours not in names.shared.values():
                self._makers[f"layers.{number}.{ours}.{kind}"] = self._maker(name, ours)
            else:
                self._experts.setdefault(f"layers.{number}.{ours}.{kind}", {})[
                    0 if expert is None else int(expert[1])] = name
        elif f"{part}.{written}" not in _BUFFERS:
            raise UnsupportedError(f"tensor {name!r}", f"no layer of the {self._config.family} family has one",
                                   remedy=REMEDY)

    def _maker(self, name: str, ours: str) -> Callable[[], np.ndarray]:
        return lambda: self._counted(name, ours)

    def _joined(self, ours: str, names: list[str]) -> Callable[[], np.ndarray]:
        """One expert's matrix after another's, so that the hidden numbers of all of them are one row."""
        axis = 1 if ours.split(".")[-2] == "down" else 0
        return lambda: np.concatenate([_flat(self._tensors[name], axis) for name in names], axis)

    def _divided(self, name: str, parts: tuple[str, ...], ours: str) -> Callable[[], np.ndarray]:
        """One of the parts that a tensor holds."""
        def make() -> np.ndarray:
            whole = self._read(name, not self._names.inputs_first.isdisjoint(parts))
            if whole.ndim == 3:
                return _flat(np.split(whole, len(parts), 1)[parts.index(ours)], 0)
            sizes = [self._config.sizes[part][0] for part in parts]
            if len(whole) != sum(sizes):
                raise FormatError(f"tensor {name!r}", expected=f"{sum(sizes)} rows", found=len(whole))
            groups = self._names.groups or self._config.kv_heads if self._names.grouped and "query" in parts else 1
            start, count = sum(sizes[:parts.index(ours)]) // groups, self._config.sizes[ours][0] // groups
            chosen = whole.reshape(groups, -1, *whole.shape[1:])[:, start:start + count]
            return self._ordered(chosen.reshape(-1, *whole.shape[1:]), ours)

        return make

    def _counted(self, name: str, ours: str) -> np.ndarray:
        """One tensor that is one of ours: gains as factors, positions from the first token's."""
        found = self._read(name, ours in self._names.inputs_first)
        if ours == "positions":
            return found[self._names.positions:]
        if found.ndim == 3:
            return _flat(found, 1 if ours == "down" else 0)
        if self._names.gain and NORMS.search(ours) and name.endswith("weight"):
            found = found.astype(np.float32) + np.float32(self._names.gain)
        return self._ordered(found, ours)

    def _read(self, name: str, turned: bool) -> np.ndarray:
        return self._tensors[name].T if turned else self._tensors[name]

    def _ordered(self, found: np.ndarray, ours: str) -> np.ndarray:
        """Rows of queries and keys in our order of rotary pairs."""
        turned = ours in ("query", "key") or ours in HEAD_NORMS
        if self._order is None or not turned or len(found) % len(self._order):
            return found
        rows = found.reshape(-1, len(self._order), *found.shape[1:])
        return rows[:, self._order].reshape(found.shape)

    def __getitem__(self, name: str) -> np.ndarray:
        make = self._makers[name]
        try:
            return make()
        except (ValueError, TypeError, IndexError) as error:  # extents that do not divide, join or turn over
            raise FormatError(f"weight {name}", expected="the extents config.json says", found=error) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _flat(found: np.ndarray, axis: int) -> np.ndarray:
    """Experts' matrices [experts, outputs, inputs] one after another along `axis`; a matrix as it is."""
    if found.ndim != 3:
        return found
    return found.swapaxes(0, 1).reshape(found.shape[1], -1) if axis else found.reshape(-1, found.shape[2])
