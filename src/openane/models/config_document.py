"""Typed reads from a `config.json`, and the fields of one that are refused when they ask for what is not built."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.activations import ACTIVATIONS
from openane.models.config import MOST
from openane.models.eight_bits import METHODS, is_readable

NEUTRAL: Mapping[str, tuple[object, str]] = {
    "quantization_config": (None, f"weights are read as float tensors, or as {METHODS}"),
    "partial_rotary_factor": (1.0, "rotary positions turn a whole head"),
    "use_sliding_window": (False, "attention over a window that slides is not built for this model_type"),
    "attn_logit_softcapping": (None, "scores are not capped in this model_type"),
    "final_logit_softcapping": (None, "scores are not capped in this model_type"),
    "scale_attn_weights": (True, "scores are scaled by the root of a head's size"),
    "scale_attn_by_inverse_layer_idx": (False, "scores are scaled alike in every layer"),
    "add_cross_attention": (False, "there is no other text to attend to"),
    "is_encoder_decoder": (False, "one stack of layers is built"),
    "position_embedding_type": ("absolute", "only absolute positions are built"),
    "use_bidirectional_attention": (False, "tokens see those before them alone"),
    "clip_qkv": (None, "queries, keys and values are not clipped"),
    "embedding_multiplier": (1.0, "embeddings are not scaled in this model_type"),
    "residual_multiplier": (1.0, "what a layer adds is not scaled in this model_type"),
    "attention_multiplier": (None, "scores are scaled by the root of a head's size"),
    "logits_scaling": (1.0, "scores of the vocabulary are not scaled in this model_type"),
    "logit_scale": (1.0, "scores of the vocabulary are not scaled in this model_type"),
    "alibi": (False, "scores do not fall with the distance in this model_type"),
    "qk_layernorm": (False, "queries and keys are not normalised in this model_type"),
    "use_qk_norm": (False, "queries and keys are not normalised in this model_type"),
}
"""Fields of a config.json that change the numbers: the value that is built, and the rule."""
REMEDY = "export it with PyTorch (torch.export) or to ONNX, and compile that"
LAYERS = {"full_attention": False, "sliding_attention": True}
"""What `layer_types` says of a layer: whether its window slides."""


def model_type(fields: Mapping[str, Any], known: Collection[str], rule: str, where: str = "") -> str:
    """The `model_type` of a configuration. For one that is not `known`, UnsupportedError says the rule and lists those
    that are."""
    kind = fields.get("model_type")
    if not isinstance(kind, str) or kind not in known:
        raise UnsupportedError(f"model_type {kind!r}{where}", rule, limit=", ".join(known), remedy=REMEDY)
    return kind


def require_encoder(document: ConfigDocument) -> None:
    """UnsupportedError for a configuration that makes a decoder of an encoder."""
    if document.flag("is_decoder", False):
        raise UnsupportedError("is_decoder of config.json", "an encoder's tokens see each other", limit=False,
                               found=True, remedy=REMEDY)


def require_neutral(fields: Mapping[str, Any], read: Collection[str] = ()) -> None:
    """UnsupportedError for a field that asks for other numbers than those that are computed; `read` are those a family
    reads itself."""
    for name, (built, rule) in NEUTRAL.items():
        found = fields.get(name)
        if name == "quantization_config" and is_readable(found):
            continue
        if name not in read and found is not None and found != built:
            raise UnsupportedError(f"{name} of config.json", rule, limit=built, found=found, remedy=REMEDY)
    kinds = fields.get("layer_types") or ()
    if "layer_types" not in read and \
            not (isinstance(kinds, list | tuple) and all(kind == "full_attention" for kind in kinds)):
        raise UnsupportedError("layer_types of config.json", "every layer of this model_type attends to the whole text",
                               limit="full_attention", found=kinds, remedy=REMEDY)


def known_activation(name: object, known: Mapping[str, str] = ACTIVATIONS) -> str:
    """What a function of a configuration is here. UnsupportedError lists those there are."""
    if not isinstance(name, str) or name not in known:
        raise UnsupportedError(f"activation {name!r}", "is not described", limit=", ".join(known), remedy=REMEDY)
    return known[name]


class ConfigDocument:
    """A `config.json`, or another document of a model's directory: `file` is what messages call it."""

    def __init__(self, values: Mapping[str, Any], file: str = "config.json") -> None:
        self.values, self.file = values, file

    def given(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.values.get(name) is not None

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number from `least`."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= MOST:
            raise FormatError(f"{name!r} of {self.file}", expected=f"a whole number from {least} to {MOST}",
                              found=value)
        return value

    def real(self, name: str, default: float | None = None) -> float:
        """A positive finite number."""
        found: Any = self.values.get(name)
        value: Any = default if found is None else found
        if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
            raise FormatError(f"{name!r} of {self.file}", expected="a positive number", found=value)
        return float(value)

    def optional(self, name: str, default: float | None = None) -> float | None:
        """A positive finite number, None where the field is null, the default where it is not there."""
        if name not in self.values:
            return default
        return self.real(name) if self.given(name) else None

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """So many positive finite numbers."""
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != count or not all(
                type(v) in (int, float) and math.isfinite(v) and v > 0 for v in value):
            raise FormatError(f"{name!r} of {self.file}", expected=f"{count} positive numbers", found=value)
        return tuple(float(v) for v in value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise FormatError(f"{name!r} of {self.file}", expected="true or false", found=value)
        return value

    def activation(self, name: str, default: str, known: Mapping[str, str] = ACTIVATIONS) -> str:
        """One of the activations we know."""
        value = self.values.get(name)
        return known_activation(default if value is None else value, known)

    def tokens(self, name: str, default: int | None = None) -> tuple[int, ...]:
        """One token, several or none; the default where the field is not there."""
        value = self.values.get(name, default)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(v) is not int for v in values):
            raise FormatError(f"{name!r} of {self.file}", expected="a token or a list of tokens", found=value)
        return tuple(values)

    def labels(self) -> tuple[str, ...]:
        """What the numbers of a classification are called: `id2label`, or so many numbers as there are labels."""
        named = self.values.get("id2label")
        if isinstance(named, dict) and named:
            if sorted(named, key=str) != sorted(map(str, range(len(named)))):
                raise FormatError(f"'id2label' of {self.file}", expected=f"numbers 0 to {len(named) - 1}",
                                  found=", ".join(map(str, list(named)[:5])))
            return tuple(str(named[str(number)]) for number in range(len(named)))
        return tuple(f"LABEL_{number}" for number in range(self.whole("num_labels", 2)))

    def start(self) -> int | None:
        """The token a text begins with."""
        found = self.tokens("bos_token_id")
        return found[0] if found else None

    def sliding(self, layers: int, default: Collection[int]) -> frozenset[int]:
        """The layers whose window slides: those `layer_types` names, or the family's own."""
        kinds = self.values.get("layer_types")
        if kinds is None:
            return frozenset(default)
        if not isinstance(kinds, list) or len(kinds) < layers or not all(isinstance(kind, str) for kind in kinds):
            raise FormatError(f"'layer_types' of {self.file}", expected=f"{layers} kinds of layers", found=kinds)
        if unknown := [kind for kind in kinds if kind not in LAYERS]:
            raise UnsupportedError("layer_types of config.json", "layers of this kind are not built",
                                   limit=", ".join(LAYERS), found=unknown[0], remedy=REMEDY)
        return frozenset(layer for layer in range(layers) if LAYERS[kinds[layer]])
