"""Families that state their sizes as Llama does: RMS normalisation, rotary positions, a gated feed-forward part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config
from openane.models.config_document import ConfigDocument
from openane.models.families.ropes import rope
from openane.models.naming import LLAMA_PARTS, FamilyNames

WHOLE = {"embed_tokens": "embedding", "norm": "norm", "lm_head": "head"}
ATTENTION = frozenset({"query", "key", "value", "output"})
FEED_FORWARD = frozenset({"gate", "up", "down"})
NAMES = FamilyNames(LLAMA_PARTS, WHOLE)
FUSED = FamilyNames(LLAMA_PARTS, WHOLE, {"self_attn.qkv_proj": ("query", "key", "value"),
                                         "mlp.gate_up_proj": ("gate", "up")})
AFTER = FamilyNames({**LLAMA_PARTS, "post_attention_layernorm": "after1", "post_feedforward_layernorm": "after2"},
                    WHOLE)
GLM4 = FamilyNames({**LLAMA_PARTS, "post_self_attn_layernorm": "after1", "post_mlp_layernorm": "after2"}, WHOLE,
                   {"mlp.gate_up_proj": ("gate", "up")})


def gated(document: ConfigDocument, **variant: Any) -> Config:
    """The sizes of a configuration, as a Llama but for the fields of `variant`."""
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    context = document.whole("max_position_embeddings", 2048)
    size = variant.pop("head_size", None) or document.whole("head_dim", max(width // heads, 1))
    readers: dict[str, Callable[[], object]] = {
        "family": lambda: "llama", "hidden": lambda: document.whole("intermediate_size"),
        "kv_heads": lambda: document.whole("num_key_value_heads", heads),
        "epsilon": lambda: document.real("rms_norm_eps", 1e-6),
        "activation": lambda: document.activation("hidden_act", "silu"),
        "tied": lambda: document.flag("tie_word_embeddings", False),
        "biases": lambda: _biases(document, ATTENTION), "rope": lambda: rope(document, context, size)}
    chosen: dict[str, Any] = {name: read() for name, read in readers.items() if name not in variant} | variant
    return Config(vocabulary=document.whole("vocab_size"), width=width, layers=document.whole("num_hidden_layers"),
                  heads=heads, head_size=size, context=context, stops=document.tokens("eos_token_id"),
                  start=document.start(), **chosen)


def sliding(document: ConfigDocument, default: bool) -> dict[str, Any]:
    """The window of a configuration and the layers it is of: those it names, or all if that is the `default`."""
    if not document.given("sliding_window"):
        return {}
    layers = document.whole("num_hidden_layers")
    found = document.sliding(layers, range(layers) if default else ())
    return {"window": document.whole("sliding_window"), "sliding": found} if found else {}


def llama(document: ConfigDocument) -> Config:
    """Llama, and what is written in its form."""
    return gated(document)


def mistral(document: ConfigDocument) -> Config:
    """Mistral: every layer slides where a window is given."""
    return gated(document, **sliding(document, True))


def qwen2(document: ConfigDocument) -> Config:
    """Qwen2 and 2.5: biases of queries, keys and values; layers from `max_window_layers` on slide if they may."""
    return gated(document, biases=ATTENTION - {"output"}, **_late_windows(document))


def qwen3(document: ConfigDocument) -> Config:
    """Qwen3: queries and keys are normalised within each head."""
    return gated(document, normed_heads=True, head_size=document.whole("head_dim", 128), **_late_windows(document))


def _late_windows(document: ConfigDocument) -> dict[str, Any]:
    if not document.flag("use_sliding_window", False) or not document.given("sliding_window"):
        return {}
    layers = document.whole("num_hidden_layers")
    found = document.sliding(layers, range(min(document.whole("max_window_layers", 28), layers), layers))
    return {"window": document.whole("sliding_window"), "sliding": found} if found else {}


def phi3(document: ConfigDocument) -> Config:
    """Phi 3 and 4: fused weights, a part of each head turned."""
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    context, size = document.whole("max_position_embeddings", 4096), document.whole("head_dim", max(width // heads, 1))
    return gated(document, family="fused", epsilon=document.real("rms_norm_eps", 1e-5),
                 rope=rope(document, context, size, part=1.0), **sliding(document, True))


def smollm3(document: ConfigDocument) -> Config:
    """SmolLM3: every fourth layer, or those that are named, has no positions."""
    layers = document.whole("num_hidden_layers")
    interval = document.whole("no_rope_layer_interval", 4)
    turned = document.values.get("no_rope_layers")
    if turned is None:
        turned = [int((layer + 1) % interval != 0) for layer in range(layers)]
    if not isinstance(turned, list) or len(turned) < layers or any(each not in (0, 1) for each in turned):
        raise UnsupportedError("no_rope_layers of config.json", "is 1 for a layer with rotary positions and 0 for one "
                               "without", limit=f"{layers} of them", found=turned)
    return gated(document, unturned=frozenset(layer for layer in range(layers) if not turned[layer]),
                 rope=rope(document, document.whole("max_position_embeddings", 32768), document.whole(
                     "head_dim", max(document.whole("hidden_size") // document.whole("num_attention_heads"), 1)), 2e6),
                 tied=document.flag("tie_word_embeddings", True),
                 **(sliding(document, False) if document.flag("use_sliding_window", False) else {}))


def olmo(document: ConfigDocument) -> Config:
    """OLMo: layer normalisation without gains."""
    return gated(document, norm="layer", norm_vectors=frozenset(), epsilon=1e-5)


def olmo2(document: ConfigDocument) -> Config:
    """OLMo 2 and 3: normalised after each part; queries and keys over all heads."""
    return gated(document, family="normed after", norms_before=False, norms_after=True, normed_rows=True,
                 epsilon=document.real("rms_norm_eps", 1e-5))


def granite(document: ConfigDocument) -> Config:
    """Granite: factors of embeddings, of scores, of what a layer adds and of the vocabulary's scores."""
    return gated(document, **multipliers(document))


def multipliers(document: ConfigDocument) -> dict[str, Any]:
    """Granite's factors."""
    return {"embedding_scale": document.real("embedding_multiplier", 1.0),
            "attention_scale": document.real("attention_multiplier", 1.0),
            "residual_scale": document.real("residual_multiplier", 1.0),
            "logit_scale": 1 / document.real("logits_scaling", 1.0)}


def helium(document: ConfigDocument) -> Config:
    """Helium: rotary pairs are neighbours; no bias behind attention."""
    size = document.whole("head_dim", 128)
    return gated(document, head_size=size, biases=_biases(document, ATTENTION - {"output"}),
                 rope=rope(document, document.whole("max_position_embeddings", 4096), size, 1e5, neighbours=True))


def ernie4_5(document: ConfigDocument) -> Config:
    """ERNIE 4.5: rotary pairs are neighbours."""
    size = document.whole("head_dim", max(document.whole("hidden_size") // document.whole("num_attention_heads"), 1))
    biases = ATTENTION | FEED_FORWARD if document.flag("use_bias", False) else frozenset()
    return gated(document, biases=biases, tied=document.flag("tie_word_embeddings", True),
                 rope=rope(document, document.whole("max_position_embeddings", 131072), size, 5e5, neighbours=True))


def seed_oss(document: ConfigDocument) -> Config:
    """Seed-OSS: biases of queries, keys and values apart from that behind attention."""
    biases = set(ATTENTION - {"output"}) if document.flag("attention_bias", True) else set()
    if document.flag("attention_out_bias", False):
        biases.add("output")
    return gated(document, head_size=document.whole("head_dim", 128),
                 biases=frozenset(biases) | (FEED_FORWARD if document.flag("mlp_bias", False) else frozenset()))


def arcee(document: ConfigDocument) -> Config:
    """Arcee: squares of ReLU, no gate."""
    return gated(document, gated=False, activation=document.activation("hidden_act", "relu2"),
                 biases=_biases(document, ATTENTION) - {"gate"}, epsilon=document.real("rms_norm_eps", 1e-5))


def glm(document: ConfigDocument) -> Config:
    """GLM 4 of 9 B: half of each head turned, its pairs neighbours."""
    return _glm(document, family="fused")


def glm4(document: ConfigDocument) -> Config:
    """GLM 4 of 0414: normalised on both sides of each part, too."""
    return _glm(document, family="glm4", norms_after=True)


def _glm(document: ConfigDocument, **variant: Any) -> Config:
    size = document.whole("head_dim", 128)
    return gated(document, head_size=size, biases=ATTENTION - {"output"} if document.flag("attention_bias", True)
                 else frozenset(), epsilon=document.real("rms_norm_eps", 1.5625e-07),
                 rope=rope(document, document.whole("max_position_embeddings", 131072), size, part=0.5,
                           neighbours=True), **variant)


def _biases(document: ConfigDocument, attention: frozenset[str]) -> frozenset[str]:
    return (attention if document.flag("attention_bias", False) else frozenset()) | \
        (FEED_FORWARD if document.flag("mlp_bias", False) else frozenset())


def olmo3(document: ConfigDocument) -> Config:
    """OLMo 3: three of four layers slide, with positions that are not stretched."""
    layers = document.whole("num_hidden_layers")
    context, heads = document.whole("max_position_embeddings", 2048), document.whole("num_attention_heads")
    size = document.whole("head_dim", max(document.whole("hidden_size") // heads, 1))
    sliding = document.sliding(layers, [layer for layer in range(layers) if (layer + 1) % 4])
    local = ConfigDocument({name: value for name, value in document.values.items() if name != "rope_scaling"})
    turning = rope(document, context, size, 5e5)
    return replace(olmo2(document), sliding=sliding, rope=turning,
                   window=document.whole("sliding_window", 4096) if sliding else None,
                   local_rope=rope(local, context, size, 5e5, kind="sliding_attention"))


def exaone4(document: ConfigDocument) -> Config:
    """EXAONE 4: normalised after each part and within heads; where layers slide, only those have positions."""
    layers = document.whole("num_hidden_layers")
    variant: dict[str, Any] = {}
    if document.given("sliding_window"):
        pattern = document.whole("sliding_window_pattern", 4) if type(
            document.values.get("sliding_window_pattern")) is int else 4
        found = document.sliding(layers, [layer for layer in range(layers) if (layer + 1) % pattern])
        variant = {"sliding": found, "unturned": frozenset(range(layers)) - found,
                   "window": document.whole("sliding_window") if found else None}
    return gated(document, family="normed after", norms_before=False, norms_after=True, normed_heads=True,
                 epsilon=document.real("rms_norm_eps", 1e-5), **variant)


def cwm(document: ConfigDocument) -> Config:
    """CWM: three of four layers slide, the first does not."""
    layers = document.whole("num_hidden_layers")
    found = document.sliding(layers, [layer for layer in range(layers) if layer % 4])
    return gated(document, head_size=document.whole("head_dim", 128), sliding=found,
                 window=document.whole("sliding_window", 8192) if found else None)
