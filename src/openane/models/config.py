"""What a language model is made of: sizes, the family's variants, and how positions are told apart.

`of_huggingface` reads a `config.json` as Hugging Face writes it. Three families: `llama` (RMSNorm, rotary positions,
gated SiLU; Llama, Mistral, Qwen2, Qwen2.5 and Stories checkpoints), `gpt2` (layer normalisation, learned positions)
and `bert` (encoders, normalised after each part).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openane.errors import FormatError, UnsupportedError

ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh",
               "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu"}
"""Hugging Face's names, and what they are here."""
FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "llama", "gpt2": "gpt2", "bert": "bert"}
"""`model_type` of a config.json, and its family."""
MOST = 1 << 24
"""No extent of a configuration is larger."""


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


@dataclass(frozen=True, slots=True)
class Config:
    """One model. `hidden` is the width inside the feed-forward part, `context` the longest text in tokens.

    `biases` names the linear layers that have one (`query`, `key`, `value`, `output`, `gate`, `up`, `down`, `pooler`).
    `stops` are the tokens that end a text, `start` the one that begins it (None: none does).
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
    if kind not in FAMILIES:
        raise UnsupportedError(f"model_type {kind!r}", "no such language model is described",
                               limit=", ".join(FAMILIES), remedy="import it from ONNX or PyTorch instead")
    family = FAMILIES[kind]
    reader = {"llama": _llama, "gpt2": _gpt2, "bert": _bert}[family]
    return reader(_Document(document))


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
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
            raise FormatError(f"{name!r} of config.json", expected="a positive number", found=value)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name, default)
        if type(value) is not bool:
            raise FormatError(f"{name!r} of config.json", expected="true or false", found=value)
        return value

    def activation(self, name: str, default: str) -> str:
        """An activation we know."""
        value = self.values.get(name, default)
        if value not in ACTIVATIONS:
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
    if document.flag("use_sliding_window", False):
        raise UnsupportedError("use_sliding_window", "attention over a window that slides is not built",
                               remedy="set it to false where texts stay shorter than the window")
    qwen = document.values["model_type"] == "qwen2"
    attention = {"query", "key", "value"} | (set() if qwen else {"output"})
    biased = attention if document.flag("attention_bias", qwen) else set()
    if document.flag("mlp_bias", False):
        biased |= {"gate", "up", "down"}
    context = document.whole("max_position_embeddings", 2048)
    if document.values["model_type"] == "mistral" and document.values.get("sliding_window") is not None:
        context = min(context, document.whole("sliding_window"))  # shorter texts see all of themselves
    return Config("llama", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads,
                  document.whole("num_key_value_heads", heads), document.whole("head_dim", max(width // heads, 1)),
                  document.whole("intermediate_size"), context, document.real("rms_norm_eps", 1e-6),
                  document.activation("hidden_act", "silu"), document.flag("tie_word_embeddings", False),
                  frozenset(biased), _rope(document, context), stops=document.tokens("eos_token_id"),
                  start=document.start())


def _rope(document: _Document, context: int) -> Rope:
    given = document.values.get("rope_parameters") or document.values.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise FormatError("'rope_scaling' of config.json", expected="an object", found=given)
    scaling = _Document(given)
    base = scaling.real("rope_theta", document.real("rope_theta", 10000.0))
    kind = given.get("rope_type", given.get("type", "default"))
    if kind in ("default", None):
        return Rope(base)
    factor, original = scaling.real("factor", 1.0), scaling.whole("original_max_position_embeddings", context)
    if kind in ("linear", "dynamic"):
        return Rope(base, kind, factor, original=original)
    if kind == "llama3":
        return Rope(base, kind, factor, scaling.real("low_freq_factor", 1.0), scaling.real("high_freq_factor", 4.0),
                    original)
    if kind == "yarn":
        attention = scaling.real("attention_factor", 1.0) if given.get("attention_factor") is not None else None
        return Rope(base, kind, factor, scaling.real("beta_slow", 1.0), scaling.real("beta_fast", 32.0), original,
                    attention)
    raise UnsupportedError(f"rope_type {kind!r}", "is not described", limit="default, linear, dynamic, llama3, yarn")


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
    if document.values.get("position_embedding_type", "absolute") != "absolute":
        raise UnsupportedError("position_embedding_type", "only absolute positions are built",
                               found=document.values["position_embedding_type"])
    return Config("bert", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads, heads,
                  max(width // heads, 1), document.whole("intermediate_size"),
                  document.whole("max_position_embeddings", 512), document.real("layer_norm_eps", 1e-12),
                  document.activation("hidden_act", "gelu"), True,
                  frozenset({"query", "key", "value", "output", "up", "down", "pooler"}),
                  types=document.whole("type_vocab_size", 2))
