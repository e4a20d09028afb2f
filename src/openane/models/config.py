"""What a language model is made of: sizes, the family's variants, and how positions are told apart.

`of_huggingface` reads a `config.json` as Hugging Face writes it. Three families: `llama` (RMSNorm, rotary positions,
gated SiLU; Llama, Mistral, Qwen2, Qwen2.5, Qwen3 and Stories checkpoints), `gpt2` (layer normalisation, learned
positions) and `bert` (encoders, normalised after each part).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from openane.errors import FormatError, UnsupportedError

ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh",
               "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu"}
"""Hugging Face's names, and what they are here."""
FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "llama", "qwen3": "llama", "gpt2": "gpt2", "bert": "bert"}
"""`model_type` of a config.json, and its family."""
NEUTRAL: Mapping[str, tuple[object, str]] = {
    "quantization_config": (None, "weights are read as float tensors"),
    "partial_rotary_factor": (1.0, "rotary positions turn a whole head"),
    "use_sliding_window": (False, "attention over a window that slides is not built"),
    "attn_logit_softcapping": (None, "scores are not capped"),
    "final_logit_softcapping": (None, "scores are not capped"),
    "scale_attn_weights": (True, "scores are scaled by the root of a head's size"),
    "scale_attn_by_inverse_layer_idx": (False, "scores are scaled alike in every layer"),
    "add_cross_attention": (False, "there is no other text to attend to"),
    "is_encoder_decoder": (False, "one stack of layers is built"),
    "position_embedding_type": ("absolute", "only absolute positions are built"),
}
"""Fields of a config.json that change the numbers: the value that is built, and the rule."""
ROPES: Mapping[str, frozenset[str]] = {
    "default": frozenset(), "linear": frozenset({"factor"}), "dynamic": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor"}),
    "yarn": frozenset({"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}),
}
"""Ways of stretching rotary positions, and what each is told."""
SHARED_BY_ROPES = {"rope_type", "type", "rope_theta", "original_max_position_embeddings", "max_position_embeddings",
                   "partial_rotary_factor"}
MOST = 1 << 24
"""No extent of a configuration is larger."""
Choice = TypeVar("Choice", bound=StrEnum)


def chosen(kind: type[Choice], value: str) -> Choice:
    """A choice given by itself or by its name. UnsupportedError for another one."""
    try:
        return kind(value)
    except ValueError:
        name = kind.__name__.lower()
        raise UnsupportedError(f"{name} {value!r}", "is none there is", limit=", ".join(kind)) from None


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: `base` of the frequencies, and how they are stretched beyond the length trained on.

    `kind`: `default`, `linear` (all frequencies divided by `factor`), `llama3` (long waves divided, short ones kept,
    those between blended), `yarn` (blended by the number of turns within the original length; cosines and sines
    scaled), `dynamic` (the base grows with the length of the text; here with the model's whole context).
    """

    base: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0
    attention: float | None = None
    truncated: bool = True

    def __post_init__(self) -> None:
        bounds = {"base": (1.0, 1e30), "factor": (1e-6, 1e6), "low": (1e-6, 1e6), "high": (1e-6, 1e6)}
        for name, (above, most) in bounds.items():
            if not above < getattr(self, name) <= most:
                raise FormatError(f"{name} of rotary positions", expected=f"above {above:g}, up to {most:g}",
                                  found=getattr(self, name))


@dataclass(frozen=True, slots=True)
class Config:
    """One model. `hidden` is the width inside the feed-forward part, `context` the longest text in tokens.

    `biases` names the linear layers that have one (`query`, `key`, `value`, `output`, `gate`, `up`, `down`, `pooler`).
    `stops` are the tokens that end a text, `start` the one that begins it (None: none does). `normed_heads`: whether
    queries and keys are normalised within each head before they are turned.
    """

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    context: int
    epsilon: float = 1e-5
    activation: str = "silu"
    tied: bool = False
    biases: frozenset[str] = frozenset()
    rope: Rope = Rope()
    types: int = 0
    stops: tuple[int, ...] = ()
    start: int | None = None
    normed_heads: bool = False

    def __post_init__(self) -> None:
        extents = {name: getattr(self, name) for name in
                   ("vocabulary", "width", "layers", "heads", "kv_heads", "head_size", "hidden", "context")}
        for name, extent in extents.items():
            if type(extent) is not int or not 0 < extent <= MOST:
                raise FormatError(f"{name} of a language model", expected=f"1 to {MOST}", found=extent)
        if self.heads % self.kv_heads:
            raise FormatError("heads must be a multiple of the key and value heads", expected=self.kv_heads,
                              found=self.heads)
        if self.family == "llama" and self.head_size % 2:
            raise FormatError("rotary positions need an even head size", expected="an even number",
                              found=self.head_size)

    @property
    def decoder(self) -> bool:
        """Whether it continues texts (and keeps keys and values of what came before)."""
        return self.family != "bert"

    @property
    def query_scale(self) -> float:
        """What query weights are multiplied by, so that the products are scaled scores. Heads that are normalised would
        lose it: there the gains have it."""
        return 1.0 if self.normed_heads else float(self.head_size ** -0.5)

    @property
    def weights(self) -> int:
        """Elements of all weight matrices and tables (a tied table counts once)."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        feed = (3 if self.family == "llama" else 2) * self.width * self.hidden
        layer = self.width * (2 * query + 2 * key) + feed
        tables = self.vocabulary * self.width * (2 if self.decoder and not self.tied else 1)
        return self.layers * layer + tables


def of_huggingface(document: Mapping[str, Any]) -> Config:
    """The configuration in a `config.json`. UnsupportedError for a family or variant that is not built here;
    FormatError when a number is missing or wrong."""
    kind = document.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnsupportedError(f"model_type {kind!r}", "no such language model is described",
                               limit=", ".join(FAMILIES), remedy="import it from ONNX or PyTorch instead")
    family = FAMILIES[kind]
    _require_neutral(document)
    reader = {"llama": _llama, "gpt2": _gpt2, "bert": _bert}[family]
    return reader(_Document(document))


def _require_neutral(fields: Mapping[str, Any]) -> None:
    """UnsupportedError for a field that asks for other numbers than those that are computed here."""
    for name, (built, rule) in NEUTRAL.items():
        found = fields.get(name)
        if found is not None and found != built:
            raise UnsupportedError(f"{name} of config.json", rule, limit=built, found=found,
                                   remedy="import the model from ONNX or PyTorch instead")
    kinds = fields.get("layer_types") or ()
    whole = isinstance(kinds, list | tuple) and all(kind == "full_attention" for kind in kinds)
    within = fields.get("model_type") == "mistral" and fields.get("sliding_window") is not None  # texts fit the window
    if not whole and not within:
        raise UnsupportedError("layer_types of config.json", "every layer attends to the whole text",
                               limit="full_attention", found=kinds)


class _Document:
    """Typed reads from a configuration."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def whole(self, name: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not 0 < value <= MOST:
            raise FormatError(f"{name!r} of config.json", expected=f"a number of 1 to {MOST}", found=value)
        return value

    def real(self, name: str, default: float) -> float:
        """A positive finite number."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
            raise FormatError(f"{name!r} of config.json", expected="a positive number", found=value)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise FormatError(f"{name!r} of config.json", expected="true or false", found=value)
        return value

    def activation(self, name: str, default: str) -> str:
        """An activation we know."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise UnsupportedError(f"activation {value!r}", "is not described", limit=", ".join(ACTIVATIONS))
        return ACTIVATIONS[value]

    def tokens(self, name: str) -> tuple[int, ...]:
        """One token, several or none."""
        value = self.values.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(v) is not int for v in values):
            raise FormatError(f"{name!r} of config.json", expected="a token or a list of tokens", found=value)
        return tuple(values)

    def start(self) -> int | None:
        """The token a text begins with."""
        found = self.tokens("bos_token_id")
        return found[0] if found else None


def _llama(document: _Document) -> Config:
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    kind = document.values["model_type"]
    attention = {"query", "key", "value"} | (set() if kind == "qwen2" else {"output"})
    biased = attention if kind == "qwen2" or document.flag("attention_bias", False) else set()
    if document.flag("mlp_bias", False):
        biased |= {"gate", "up", "down"}
    context = document.whole("max_position_embeddings", 2048)
    if kind == "mistral" and document.values.get("sliding_window") is not None:
        context = min(context, document.whole("sliding_window"))  # shorter texts see all of themselves
    size = document.whole("head_dim", 128 if kind == "qwen3" else max(width // heads, 1))
    return Config("llama", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads,
                  document.whole("num_key_value_heads", heads), size,
                  document.whole("intermediate_size"), context, document.real("rms_norm_eps", 1e-6),
                  document.activation("hidden_act", "silu"), document.flag("tie_word_embeddings", False),
                  frozenset(biased), _rope(document, context), stops=document.tokens("eos_token_id"),
                  start=document.start(), normed_heads=kind == "qwen3")


def _rope(document: _Document, context: int) -> Rope:
    given = document.values.get("rope_parameters") or document.values.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise FormatError("'rope_scaling' of config.json", expected="an object", found=given)
    _require_neutral(given)
    scaling = _Document(given)
    base = scaling.real("rope_theta", document.real("rope_theta", 10000.0))
    kind = given.get("rope_type", given.get("type")) or "default"
    if not isinstance(kind, str) or kind not in ROPES:
        raise UnsupportedError(f"rope_type {kind!r}", "is not described", limit=", ".join(ROPES))
    if unknown := sorted(given.keys() - ROPES[kind] - SHARED_BY_ROPES):
        raise UnsupportedError(f"{unknown[0]} of a rope of type {kind!r}", "is not described",
                               limit=", ".join(sorted(ROPES[kind])) or "nothing more", found=given[unknown[0]])
    if kind == "default":
        return Rope(base)
    factor, original = scaling.real("factor", 1.0), scaling.whole("original_max_position_embeddings", context)
    if kind == "llama3":
        return Rope(base, kind, factor, scaling.real("low_freq_factor", 1.0), scaling.real("high_freq_factor", 4.0),
                    original)
    if kind == "yarn":
        return Rope(base, kind, factor, scaling.real("beta_slow", 1.0), scaling.real("beta_fast", 32.0), original,
                    _yarn_attention(scaling, factor), scaling.flag("truncate", True))
    return Rope(base, kind, factor, original=original)


def _yarn_attention(scaling: _Document, factor: float) -> float | None:
    """What cosines and sines are scaled by, where it is given: itself, or as a ratio of two scales."""
    given = scaling.values
    if given.get("attention_factor") is not None:
        return scaling.real("attention_factor", 1.0)
    if not given.get("mscale") or not given.get("mscale_all_dim"):
        return None
    above, below = (0.1 * scaling.real(name, 1.0) * math.log(max(factor, 1.0)) + 1
                    for name in ("mscale", "mscale_all_dim"))
    return above / below


def _gpt2(document: _Document) -> Config:
    width, heads = document.whole("n_embd"), document.whole("n_head")
    return Config("gpt2", document.whole("vocab_size"), width, document.whole("n_layer"), heads, heads,
                  max(width // heads, 1), document.whole("n_inner", 4 * width), document.whole("n_positions", 1024),
                  document.real("layer_norm_epsilon", 1e-5), document.activation("activation_function", "gelu_new"),
                  document.flag("tie_word_embeddings", True),
                  frozenset({"query", "key", "value", "output", "up", "down"}),
                  stops=document.tokens("eos_token_id"), start=document.start())


def _bert(document: _Document) -> Config:
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    if document.flag("is_decoder", False):
        raise UnsupportedError("is_decoder of config.json", "an encoder's tokens see each other", limit=False)
    return Config("bert", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads, heads,
                  max(width // heads, 1), document.whole("intermediate_size"),
                  document.whole("max_position_embeddings", 512), document.real("layer_norm_eps", 1e-12),
                  document.activation("hidden_act", "gelu"), True,
                  frozenset({"query", "key", "value", "output", "up", "down", "pooler"}),
                  types=document.whole("type_vocab_size", 2))
