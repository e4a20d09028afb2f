"""Gemma 1, 2 and 3: gains less 1, embeddings scaled by the root of their width, gates of GELU; from Gemma 2 on
normalisations on both sides, capped scores, and layers whose window slides."""

from __future__ import annotations

from typing import Any

from openane.errors import FormatError
from openane.models.activations import ACTIVATIONS
from openane.models.config import Config
from openane.models.config_document import ConfigDocument, require_neutral
from openane.models.families.llama import WHOLE, gated
from openane.models.families.ropes import rope
from openane.models.naming import LLAMA_PARTS, FamilyNames

NAMES = FamilyNames(LLAMA_PARTS, WHOLE, gain=1.0)
BOTH_SIDES = FamilyNames({**LLAMA_PARTS, "post_attention_layernorm": "after1", "pre_feedforward_layernorm": "norm2",
                          "post_feedforward_layernorm": "after2"}, WHOLE, gain=1.0)
MEANT = dict(ACTIVATIONS, gelu=ACTIVATIONS["gelu_pytorch_tanh"])
"""What activations of Gemma 1's first files mean."""
SUM_SCALE = 1 / 32
"""Sums of Gemma's layers are beyond 65504, which fp16 holds (its weights are trained in bfloat16)."""
DEFAULTS: dict[str, Any] = {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
                            "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
                            "head_dim": 256, "max_position_embeddings": 131072}
"""What published text_configs leave to the transformers library."""
LOCAL_BASE = 10000.0
"""Of rotary positions in Gemma 3's layers that slide, unless another is given."""


def gemma(document: ConfigDocument) -> Config:
    """Gemma 1. Its first files state an exact GELU and mean its tanh form, as transformers has it."""
    name = "hidden_activation" if document.given("hidden_activation") else "hidden_act"
    return _gemma(document, "gemma", activation=document.activation(name, "gelu_pytorch_tanh", MEANT))


def gemma2(document: ConfigDocument) -> Config:
    """Gemma 2: every other layer slides."""
    return _both_sides(document, 2, **_caps(document, 50.0, 30.0))


def gemma3(document: ConfigDocument) -> Config:
    """The text part of Gemma 3: five of six layers slide, and turn by another base; heads are normalised."""
    pattern = document.whole("sliding_window_pattern", 6)
    context, size = document.whole("max_position_embeddings", 131072), document.whole("head_dim", 256)
    local = ConfigDocument({name: value for name, value in document.values.items() if name != "rope_scaling"}
                           | {"rope_theta": document.real("rope_local_base_freq", LOCAL_BASE)})
    return _both_sides(document, pattern, normed_heads=True, rope=rope(document, context, size, 1e6),
                       local_rope=rope(local, context, size, LOCAL_BASE, kind="sliding_attention"),
                       **_caps(document, None, None))


def gemma3_of_images(document: ConfigDocument) -> Config:
    """The text part of a Gemma 3 that sees images, too."""
    given = document.values.get("text_config")
    if not isinstance(given, dict):
        raise FormatError("'text_config' of config.json", expected="an object", found=given)
    require_neutral(given, ("layer_types", "attn_logit_softcapping", "final_logit_softcapping"))
    tokens = {name: document.values[name] for name in ("eos_token_id", "bos_token_id") if document.given(name)}
    return gemma3(ConfigDocument(DEFAULTS | given | tokens))


def _both_sides(document: ConfigDocument, pattern: int, **variant: Any) -> Config:
    layers = document.whole("num_hidden_layers")
    sliding = document.sliding(layers, [layer for layer in range(layers) if (layer + 1) % pattern])
    window = document.whole("sliding_window", 4096) if sliding else None
    return _gemma(document, "gemma2", norms_after=True, window=window, sliding=sliding,
                  activation=document.activation("hidden_activation", "gelu_pytorch_tanh"),
                  attention_scale=document.real("query_pre_attn_scalar", 256) ** -0.5, **variant)


def _gemma(document: ConfigDocument, family: str, **variant: Any) -> Config:
    return gated(document, family=family, head_size=document.whole("head_dim", 256),
                 embedding_scale=float(document.whole("hidden_size") ** 0.5), stream_scale=SUM_SCALE,
                 tied=document.flag("tie_word_embeddings", True), **variant)


def _caps(document: ConfigDocument, scores: float | None, logits: float | None) -> dict[str, Any]:
    return {"score_cap": document.optional("attn_logit_softcapping", scores),
            "logit_cap": document.optional("final_logit_softcapping", logits)}
