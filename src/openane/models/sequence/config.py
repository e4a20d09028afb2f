"""What a sequence-to-sequence model is made of, read from a `config.json` as Hugging Face writes it.

Three kinds of layers cover the families: T5's (RMS normalisation before each part, no biases, positions as biases of
scores), BART's (layer normalisation after each part, learned or sinusoidal positions) and the same with the
normalisation before each part (Whisper, mBART, Pegasus).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import MOST
from openane.models.config_document import REMEDY, ConfigDocument, known_activation, model_type, require_neutral

T5 = ("t5", "mt5")
NORMED_AFTER = ("bart", "marian")
NORMED_BEFORE = ("mbart", "pegasus", "whisper")
SINUSOIDAL = ("marian", "pegasus")
"""Families whose positions are sines and cosines that the checkpoint may not hold."""
FAMILIES = (*T5, *NORMED_AFTER, *NORMED_BEFORE)
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
    kind = model_type(document, FAMILIES, "is no sequence-to-sequence model that is built here")
    require_neutral(document, ("is_encoder_decoder",))
    return (_t5 if kind in T5 else _bart)(ConfigDocument(document), kind)


def _t5(document: ConfigDocument, family: str) -> SequenceConfig:
    width, heads = document.whole("d_model"), document.whole("num_heads")
    layers, hidden = document.whole("num_layers"), document.whole("d_ff")
    forward = str(document.values.get("feed_forward_proj", "relu"))
    kind = "gelu_new" if forward == "gated-gelu" else forward.removeprefix("gated-")
    scaled = family == "t5" and document.flag("scale_decoder_outputs", document.flag("tie_word_embeddings", True))
    return SequenceConfig(
        family, width, document.whole("d_kv"), Stack(layers, heads, hidden),
        Stack(document.whole("num_decoder_layers", layers), heads, hidden), document.whole("vocab_size"),
        known_activation(kind), forward.startswith("gated-"), document.real("layer_norm_epsilon", 1e-6), MOST, MOST,
        document.whole("relative_attention_num_buckets", 32), document.whole("relative_attention_max_distance", 128),
        0, 1.0, width ** -0.5 if scaled else 1.0, 0, _start(document, 0), document.tokens("eos_token_id", 1))


def _bart(document: ConfigDocument, family: str) -> SequenceConfig:
    width = document.whole("d_model")
    stacks = [Stack(document.whole(f"{side}_layers"), document.whole(f"{side}_attention_heads"),
                    document.whole(f"{side}_ffn_dim")) for side in ("encoder", "decoder")]
    size, rest = divmod(width, stacks[0].heads)
    if rest or stacks[1].heads * size != width:
        raise UnsupportedError(f"a {family} model", "encoder and decoder must have heads of one size",
                               found=f"width {width}, {stacks[0].heads} and {stacks[1].heads} heads", remedy=REMEDY)
    speech = family == "whisper"
    positions = document.whole("max_target_positions" if speech else "max_position_embeddings", 1024)
    return SequenceConfig(
        family, width, size, stacks[0], stacks[1], document.whole("vocab_size"),
        document.activation("activation_function", "gelu"), False, EPSILON, positions,
        document.whole("max_source_positions", 1500) if speech else positions, 0, 0,
        2 if family in ("bart", "mbart") else 0, width ** 0.5 if document.flag("scale_embedding", False) else 1.0, 1.0,
        document.whole("num_mel_bins", 80) if speech else 0, _start(document, 2), document.tokens("eos_token_id", 2))


def _start(document: ConfigDocument, default: int) -> int:
    """The token an answer begins with."""
    return next(iter(document.tokens("decoder_start_token_id")), default)
