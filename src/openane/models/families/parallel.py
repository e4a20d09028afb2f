"""Families whose attention and feed-forward part read the same input side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config, Rope
from openane.models.config_document import REMEDY, ConfigDocument
from openane.models.families.llama import ATTENTION, gated
from openane.models.families.plain import ALL_BIASES, BOTH_VECTORS, LAYER_NORM
from openane.models.families.ropes import rope
from openane.models.naming import LLAMA_PARTS, FamilyNames

NEOX = FamilyNames({"input_layernorm": "norm1", "post_attention_layernorm": "norm2", "attention.dense": "output",
                    "mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down"},
                   {"embed_in": "embedding", "final_layer_norm": "norm", "embed_out": "head"},
                   {"attention.query_key_value": ("query", "key", "value")}, grouped=True)
PHI = FamilyNames({**LLAMA_PARTS, "self_attn.dense": "output", "mlp.fc1": "up", "mlp.fc2": "down"},
                  {"embed_tokens": "embedding", "final_layernorm": "norm", "lm_head": "head"})
GPTJ = FamilyNames({"ln_1": "norm1", "attn.q_proj": "query", "attn.k_proj": "key", "attn.v_proj": "value",
                    "attn.out_proj": "output", "mlp.fc_in": "up", "mlp.fc_out": "down"},
                   {"wte": "embedding", "ln_f": "norm", "lm_head": "head"})
CODEGEN = FamilyNames(GPTJ.parts, GPTJ.wholes, {"attn.qkv_proj": ("query", "value", "key")}, grouped=True, groups=4)
"""Its weights are divided among the four parts of the machine that trained it."""
FALCON = FamilyNames({"input_layernorm": "norm1", "ln_attn": "norm1", "ln_mlp": "norm2",
                      "post_attention_layernorm": "norm2", "self_attention.dense": "output",
                      "mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down"},
                     {"word_embeddings": "embedding", "ln_f": "norm", "lm_head": "head"},
                     {"self_attention.query_key_value": ("query", "key", "value")}, grouped=True)
ONE_NORM: dict[str, Any] = {"parallel": True, "one_norm": True}


def _sizes(document: ConfigDocument, context: int) -> tuple[int, int]:
    """The longest text, and elements of a head."""
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    return document.whole("max_position_embeddings", context), document.whole("head_dim", max(width // heads, 1))


def gpt_neox(document: ConfigDocument) -> Config:
    """GPT-NeoX and Pythia: two normalisations, a part of each head turned."""
    heads = document.whole("num_attention_heads")
    biases = {"up", "down"} | (ATTENTION if document.flag("attention_bias", True) else set())
    turning = rope(document, *_sizes(document, 2048), document.real("rotary_emb_base", 10000.0),
                   part=document.real("rotary_pct", 0.25))
    return gated(document, family="gpt_neox", epsilon=document.real("layer_norm_eps", 1e-5), kv_heads=heads,
                 activation=document.activation("hidden_act", "gelu"), biases=frozenset(biases), rope=turning,
                 parallel=document.flag("use_parallel_residual", True), **LAYER_NORM)


def stablelm(document: ConfigDocument) -> Config:
    """StableLM: side by side only where the configuration says so."""
    biases = ATTENTION - {"output"} if document.flag("use_qkv_bias", False) else frozenset()
    variant = ONE_NORM if document.flag("use_parallel_residual", False) else {}
    return gated(document, norm="layer", norm_vectors=BOTH_VECTORS, biases=biases,
                 epsilon=document.real("layer_norm_eps", 1e-5),
                 rope=rope(document, *_sizes(document, 4096), part=0.25), **variant)


def phi(document: ConfigDocument) -> Config:
    """Phi 1, 1.5 and 2: biases everywhere, the scores of the vocabulary included."""
    return gated(document, family="phi", epsilon=document.real("layer_norm_eps", 1e-5), biases=ALL_BIASES | {"head"},
                 activation=document.activation("hidden_act", "gelu_new"),
                 rope=rope(document, *_sizes(document, 2048), part=0.5), **ONE_NORM, **LAYER_NORM)


def gptj(document: ConfigDocument) -> Config:
    """GPT-J: rotary pairs are neighbours."""
    width, heads = document.whole("n_embd"), document.whole("n_head")
    size, turned = max(width // heads, 1), document.whole("rotary_dim")
    return Config("gptj", document.whole("vocab_size"), width, document.whole("n_layer"), heads, heads, size,
                  document.whole("n_inner", 4 * width), document.whole("n_positions", 2048),
                  document.real("layer_norm_epsilon", 1e-5), document.activation("activation_function", "gelu_new"),
                  document.flag("tie_word_embeddings", False), frozenset({"up", "down", "head"}),
                  Rope(turned=turned if turned != size else 0, neighbours=True), stops=document.tokens("eos_token_id"),
                  start=document.start(), **ONE_NORM, **LAYER_NORM)


def codegen(document: ConfigDocument) -> Config:
    """CodeGen: GPT-J with fused queries, values and keys."""
    heads = document.whole("n_head")
    if heads % CODEGEN.groups:
        raise UnsupportedError("n_head of config.json", "heads are divided among four groups", limit="a multiple of 4",
                               found=heads, remedy=REMEDY)
    return replace(gptj(document), family="codegen")


def falcon(document: ConfigDocument) -> Config:
    """Falcon: heads that share one key and value, or grouped ones in its newer form."""
    newer, heads = document.flag("new_decoder_architecture", False), document.whole("num_attention_heads")
    shared = 1 if document.flag("multi_query", True) else heads
    parallel = document.flag("parallel_attn", True)
    if newer and not parallel:
        raise UnsupportedError("parallel_attn of config.json", "the newer form computes both parts side by side",
                               limit=True, found=False, remedy=REMEDY)
    two = newer and document.whole("num_ln_in_parallel_attn", 2) == 2
    width = document.whole("hidden_size")
    return gated(document, family="falcon", kv_heads=document.whole("num_kv_heads", heads) if newer else shared,
                 hidden=document.whole("ffn_hidden_size", 4 * width),
                 epsilon=document.real("layer_norm_epsilon", 1e-5),
                 activation=document.activation("activation", "gelu"),
                 biases=ALL_BIASES if document.flag("bias", False) else frozenset(), parallel=parallel,
                 one_norm=parallel and not two, tied=document.flag("tie_word_embeddings", True), **LAYER_NORM)


def cohere(document: ConfigDocument) -> Config:
    """Cohere's Command R: gains without offsets, rotary pairs are neighbours, scores of the vocabulary scaled."""
    context, size = _sizes(document, 8192)
    return _cohere(document, rope=rope(document, context, size, 500000.0, neighbours=True))


def cohere2(document: ConfigDocument) -> Config:
    """Command R7B: three of four layers slide, and only those have positions."""
    layers, pattern = document.whole("num_hidden_layers"), document.whole("sliding_window_pattern", 4)
    sliding = document.sliding(layers, [layer for layer in range(layers) if (layer + 1) % pattern])
    context, size = _sizes(document, 8192)
    return _cohere(document, rope=rope(document, context, size, neighbours=True), sliding=sliding,
                   window=document.whole("sliding_window", 4096) if sliding else None,
                   unturned=frozenset(range(layers)) - sliding)


def _cohere(document: ConfigDocument, **variant: Any) -> Config:
    return gated(document, norm="layer", epsilon=document.real("layer_norm_eps", 1e-5),
                 tied=document.flag("tie_word_embeddings", True), logit_scale=document.real("logit_scale", 0.0625),
                 **ONE_NORM, **variant)
