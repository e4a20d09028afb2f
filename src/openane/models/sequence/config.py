"""What a sequence-to-sequence model is made of, read from a `config.json` as Hugging Face writes it.

Three kinds of layers cover the families: T5's (RMS normalisation before each part, no biases, positions as biases of
scores), BART's (layer normalisation after each part, learned or sinusoidal positions) and the same with the
normalisation before each part (Whisper, mBART, Pegasus).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openane.errors import FormatError, UnsupportedError

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
"""Hugging Face's names, and what they are here."""
T5 = ("t5", "mt5")
NORMED_AFTER = ("bart", "marian")
NORMED_BEFORE = ("mbart", "pegasus", "whisper")
SINUSOIDAL = ("marian", "pegasus")
"""Families whose positions are sines and cosines that the checkpoint may not hold."""
FAMILIES = (*T5, *NORMED_AFTER, *NORMED_BEFORE)
MOST = 1 << 24
"""No extent of a configuration is larger."""
EPSILON = 1e-5
"""Of layer normalisations, in the families that do not state it."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The encoder, or the decoder: its layers, heads, and the width of their hidden parts."""

    layers: int
    heads: int
    hidden: int


@dataclass(frozen=True, slots=True)
class SequenceConfig:
    """Sizes and variants. `buckets` and `distance`: positions as biases of scores (0: none); `offset`: rows before the
    first position in the tables of learned positions; `scale`: of embeddings; `head_scale`: of what the vocabulary's
    scores are computed from; `mels`: channels of a sound's spectrogram (0: the model reads texts)."""

    family: str
    width: int
    head_size: int
    encoder: Stack
    decoder: Stack
    vocabulary: int
    activation: str
    gated: bool
    epsilon: float
    positions: int
    source_positions: int
    buckets: int
    distance: int
    offset: int
    scale: float
    head_scale: float
    mels: int
    start: int
    stops: tuple[int, ...]

    @property
    def relative(self) -> bool:
        """Whether positions are biases of scores, as in T5."""
        return self.buckets > 0

    @property
    def normed_first(self) -> bool:
        """Whether parts are normalised before, not after."""
        return self.family not in NORMED_AFTER

    @property
    def query_scale(self) -> float:
        """What scores are multiplied by."""
        return 1.0 if self.relative else self.head_size ** -0.5


def of_huggingface(document: Mapping[str, Any]) -> SequenceConfig:
    """The configuration of a `config.json`. UnsupportedError names a family that is not built, FormatError a number
    that cannot be."""
    family = document.get("model_type")
    if family not in FAMILIES:
        raise UnsupportedError(f"model_type {family!r}", "is no sequence-to-sequence model that is built here",
                               limit=", ".join(FAMILIES))
    return _t5(document) if family in T5 else _bart(document)


def _t5(document: Mapping[str, Any]) -> SequenceConfig:
    width, heads = _whole(document, "d_model"), _whole(document, "num_heads")
    layers, hidden = _whole(document, "num_layers"), _whole(document, "d_ff")
    forward = str(document.get("feed_forward_proj", "relu"))
    gated = forward.startswith("gated-")
    kind = "gelu_new" if forward == "gated-gelu" else forward.removeprefix("gated-")
    tied = bool(document.get("tie_word_embeddings", True))
    scaled = document["model_type"] == "t5" and bool(document.get("scale_decoder_outputs", tied))
    return SequenceConfig(
        str(document["model_type"]), width, _whole(document, "d_kv"), Stack(layers, heads, hidden),
        Stack(_whole(document, "num_decoder_layers", layers), heads, hidden), _whole(document, "vocab_size"),
        _activation(kind), gated, float(document.get("layer_norm_epsilon", 1e-6)), MOST, MOST,
        _whole(document, "relative_attention_num_buckets", 32),
        _whole(document, "relative_attention_max_distance", 128), 0, 1.0,
        width ** -0.5 if scaled else 1.0, 0,
        _start(document, 0), _stops(document, 1))


def _bart(document: Mapping[str, Any]) -> SequenceConfig:
    family, width = str(document["model_type"]), _whole(document, "d_model")
    stacks = [Stack(_whole(document, f"{side}_layers"), _whole(document, f"{side}_attention_heads"),
                    _whole(document, f"{side}_ffn_dim")) for side in ("encoder", "decoder")]
    size, rest = divmod(width, stacks[0].heads)
    if rest or stacks[1].heads * size != width:
        raise UnsupportedError(f"a {family} model", "encoder and decoder must have heads of one size",
                               found=f"width {width}, {stacks[0].heads} and {stacks[1].heads} heads")
    speech = family == "whisper"
    positions = _whole(document, "max_target_positions" if speech else "max_position_embeddings", 1024)
    return SequenceConfig(
        family, width, size, stacks[0], stacks[1], _whole(document, "vocab_size"),
        _activation(str(document.get("activation_function", "gelu"))), False, EPSILON, positions,
        _whole(document, "max_source_positions", 1500) if speech else positions, 0, 0,
        2 if family in ("bart", "mbart") else 0, width ** 0.5 if document.get("scale_embedding") else 1.0, 1.0,
        _whole(document, "num_mel_bins", 80) if speech else 0, _start(document, 2), _stops(document, 2))


def _whole(document: Mapping[str, Any], name: str, default: int | None = None) -> int:
    found = document.get(name, default)
    if found is None:
        found = default
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found <= MOST:
        raise FormatError(f"{name} of config.json", expected=f"a whole number from 1 to {MOST}", found=found)
    return found


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"activation {name!r}", "is not built here", limit=", ".join(ACTIVATIONS))
    return ACTIVATIONS[name]


def _start(document: Mapping[str, Any], default: int) -> int:
    found = document.get("decoder_start_token_id", default)
    return found if isinstance(found, int) else default


def _stops(document: Mapping[str, Any], default: int) -> tuple[int, ...]:
    found = document.get("eos_token_id", default)
    return tuple(int(each) for each in (found if isinstance(found, list) else [found]) if each is not None)
