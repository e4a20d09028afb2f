"""Families with layer normalisation and a feed-forward part without a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.config import Config, Rope
from openane.models.config_document import REMEDY, ConfigDocument, require_encoder
from openane.models.families.llama import ATTENTION, WHOLE, gated, sliding
from openane.models.families.ropes import rope
from openane.models.naming import LLAMA_PARTS, FamilyNames

BOTH_VECTORS = frozenset({"weight", "bias"})
ALL_BIASES = ATTENTION | {"up", "down"}
LAYER_NORM: dict[str, Any] = {"norm": "layer", "norm_vectors": BOTH_VECTORS, "gated": False}
GPT2 = FamilyNames({"ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "output", "mlp.c_fc": "up", "mlp.c_proj": "down"},
                   {"wte": "embedding", "wpe": "positions", "ln_f": "norm", "lm_head": "head"},
                   {"attn.c_attn": ("query", "key", "value")},
                   inputs_first=frozenset({"query", "key", "value", "output", "up", "down"}))
BERT = FamilyNames({"attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
                    "attention.output.dense": "output", "attention.output.LayerNorm": "norm1",
                    "intermediate.dense": "up", "output.dense": "down", "output.LayerNorm": "norm2"},
                   {"embeddings.word_embeddings": "embedding", "embeddings.position_embeddings": "positions",
                    "embeddings.token_type_embeddings": "types", "embeddings.LayerNorm": "embedding.norm",
                    "pooler.dense": "pooler"})
OPT = FamilyNames({"self_attn.q_proj": "query", "self_attn.k_proj": "key", "self_attn.v_proj": "value",
                   "self_attn.out_proj": "output", "fc1": "up", "fc2": "down", "self_attn_layer_norm": "norm1",
                   "final_layer_norm": "norm2"},
                  {"embed_tokens": "embedding", "embed_positions": "positions", "final_layer_norm": "norm",
                   "lm_head": "head"}, positions=2)
BLOOM = FamilyNames({"input_layernorm": "norm1", "post_attention_layernorm": "norm2",
                     "self_attention.dense": "output", "mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down"},
                    {"word_embeddings": "embedding", "word_embeddings_layernorm": "embedding.norm", "ln_f": "norm",
                     "lm_head": "head"}, {"self_attention.query_key_value": ("query", "key", "value")}, grouped=True)
BIGCODE = FamilyNames(GPT2.parts, GPT2.wholes, GPT2.fused, grouped=True)
GPT_NEO = FamilyNames({"ln_1": "norm1", "ln_2": "norm2", "attn.attention.q_proj": "query",
                       "attn.attention.k_proj": "key", "attn.attention.v_proj": "value",
                       "attn.attention.out_proj": "output", "mlp.c_fc": "up", "mlp.c_proj": "down"}, GPT2.wholes)
MPT = FamilyNames({"norm_1": "norm1", "norm_2": "norm2", "attn.out_proj": "output", "ffn.up_proj": "up",
                   "ffn.down_proj": "down"}, {"wte": "embedding", "norm_f": "norm", "lm_head": "head"},
                  {"attn.Wqkv": ("query", "key", "value")})
MPT_ATTENTION: dict[str, object] = {"attn_type": "multihead_attention", "alibi": True, "alibi_bias_max": 8,
                                    "prefix_lm": False, "qk_ln": False, "clip_qkv": None, "softmax_scale": None}
NEMOTRON = FamilyNames(LLAMA_PARTS, WHOLE, gain=1.0)
STARCODER = FamilyNames({**LLAMA_PARTS, "mlp.c_fc": "up", "mlp.c_proj": "down"}, WHOLE)


def gpt2(document: ConfigDocument) -> Config:
    """GPT-2: learned positions, matrices inputs first."""
    width, heads = document.whole("n_embd"), document.whole("n_head")
    return Config("gpt2", document.whole("vocab_size"), width, document.whole("n_layer"), heads, heads,
                  max(width // heads, 1), document.whole("n_inner", 4 * width), document.whole("n_positions", 1024),
                  document.real("layer_norm_epsilon", 1e-5), document.activation("activation_function", "gelu_new"),
                  document.flag("tie_word_embeddings", True), ALL_BIASES, stops=document.tokens("eos_token_id"),
                  start=document.start(), positions="learned", **LAYER_NORM)


def bert(document: ConfigDocument) -> Config:
    """BERT: an encoder."""
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    require_encoder(document)
    return Config("bert", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads, heads,
                  max(width // heads, 1), document.whole("intermediate_size"),
                  document.whole("max_position_embeddings", 512), document.real("layer_norm_eps", 1e-12),
                  document.activation("hidden_act", "gelu"), True, ALL_BIASES | {"pooler"},
                  types=document.whole("type_vocab_size", 2), positions="learned", **LAYER_NORM)


def starcoder2(document: ConfigDocument) -> Config:
    """StarCoder2: rotary positions, biases everywhere."""
    biases = ALL_BIASES if document.flag("use_bias", True) else frozenset()
    return gated(document, family="starcoder2", epsilon=document.real("norm_epsilon", 1e-5), biases=biases,
                 kv_heads=document.whole("num_key_value_heads", 2),
                 activation=document.activation("hidden_act", "gelu_pytorch_tanh"),
                 tied=document.flag("tie_word_embeddings", True), **sliding(document, True), **LAYER_NORM)


def opt(document: ConfigDocument) -> Config:
    """OPT: learned positions, of which the first two are of no token."""
    for name, built in (("do_layer_norm_before", True), ("_remove_final_layer_norm", False),
                        ("layer_norm_elementwise_affine", True)):
        if document.flag(name, built) is not built:
            raise UnsupportedError(f"{name} of config.json", "layers are normalised before each part, with gains",
                                   limit=built, found=not built, remedy=REMEDY)
    width = document.whole("hidden_size")
    if document.whole("word_embed_proj_dim", width) != width:
        raise UnsupportedError("word_embed_proj_dim of config.json", "embeddings are as wide as layers", limit=width,
                               found=document.whole("word_embed_proj_dim"), remedy=REMEDY)
    heads = document.whole("num_attention_heads")
    return gated(document, family="opt", kv_heads=heads, hidden=document.whole("ffn_dim"), epsilon=1e-5,
                 activation=document.activation("activation_function", "relu"), positions="learned",
                 tied=document.flag("tie_word_embeddings", True), rope=Rope(),
                 biases=ALL_BIASES if document.flag("enable_bias", True) else frozenset(), **LAYER_NORM)


def bloom(document: ConfigDocument) -> Config:
    """BLOOM: scores that fall with the distance, embeddings that are normalised. Any length is possible; what it was
    trained on, or 2048 tokens, is the longest text."""
    if document.flag("apply_residual_connection_post_layernorm", False):
        raise UnsupportedError("apply_residual_connection_post_layernorm of config.json",
                               "parts are added to what was not normalised", limit=False, found=True, remedy=REMEDY)
    width = document.whole("hidden_size", document.values.get("n_embed"))
    heads = document.whole("n_head", document.values.get("num_attention_heads"))
    layers = document.whole("n_layer", document.values.get("num_hidden_layers"))
    return Config("bloom", document.whole("vocab_size"), width, layers, heads, heads, max(width // heads, 1), 4 * width,
                  document.whole("seq_length", 2048), document.real("layer_norm_epsilon", 1e-5), "gelu_tanh",
                  document.flag("tie_word_embeddings", True), ALL_BIASES, stops=document.tokens("eos_token_id"),
                  start=document.start(), positions="alibi", embedding_norm=True, **LAYER_NORM)


def mpt(document: ConfigDocument) -> Config:
    """MPT: scores that fall with the distance, gains without offsets, no biases."""
    attention = document.values.get("attn_config") or {}
    if not isinstance(attention, dict):
        raise FormatError("'attn_config' of config.json", expected="an object", found=attention)
    for fields, where in ((attention, "attn_config"), (document.values, "config.json")):
        for name, built in (MPT_ATTENTION if fields is attention else {"no_bias": True, "logit_scale": None}).items():
            if fields.get(name) is not None and fields[name] != built:
                raise UnsupportedError(f"{name} of {where}", "is built in one way", limit=built, found=fields[name],
                                       remedy=REMEDY)
    width, heads = document.whole("d_model"), document.whole("n_heads")
    return Config("mpt", document.whole("vocab_size"), width, document.whole("n_layers"), heads, heads,
                  max(width // heads, 1), 4 * width, document.whole("max_seq_len", 2048),
                  document.real("layer_norm_epsilon", 1e-5), "gelu", document.flag("tie_word_embeddings", True),
                  stops=document.tokens("eos_token_id"), start=document.start(), positions="alibi", gated=False,
                  norm="layer")


def gpt_bigcode(document: ConfigDocument) -> Config:
    """GPT BigCode (StarCoder, SantaCoder): GPT-2 whose heads may share one key and value."""
    config = gpt2(document)
    heads = 1 if document.flag("multi_query", True) else config.heads
    return replace(config, family="gpt_bigcode", kv_heads=heads,
                   activation=document.activation("activation_function", "gelu_pytorch_tanh"))


def gpt_neo(document: ConfigDocument) -> Config:
    """GPT-Neo: scores that are not scaled, layers with a window by turns."""
    width, heads, layers = (document.whole(name) for name in ("hidden_size", "num_heads", "num_layers"))
    kinds = document.values.get("attention_layers")
    if not isinstance(kinds, list) or len(kinds) < layers or any(kind not in ("global", "local") for kind in kinds):
        raise FormatError("'attention_layers' of config.json", expected=f"{layers} of global or local", found=kinds)
    sliding = frozenset(layer for layer in range(layers) if kinds[layer] == "local")
    return Config("gpt_neo", document.whole("vocab_size"), width, layers, heads, heads, max(width // heads, 1),
                  document.whole("intermediate_size", 4 * width), document.whole("max_position_embeddings", 2048),
                  document.real("layer_norm_epsilon", 1e-5), document.activation("activation_function", "gelu_new"),
                  document.flag("tie_word_embeddings", True), frozenset({"output", "up", "down"}),
                  stops=document.tokens("eos_token_id"), start=document.start(), positions="learned",
                  attention_scale=1.0, sliding=sliding,
                  window=document.whole("window_size", 256) if sliding else None, **LAYER_NORM)


def nemotron(document: ConfigDocument) -> Config:
    """Nemotron: gains less 1, squares of ReLU."""
    context, heads = document.whole("max_position_embeddings", 4096), document.whole("num_attention_heads")
    size = document.whole("head_dim", max(document.whole("hidden_size") // heads, 1))
    biases = (ATTENTION if document.flag("attention_bias", False) else frozenset()) | \
        (frozenset({"up", "down"}) if document.flag("mlp_bias", False) else frozenset())
    return gated(document, family="nemotron", epsilon=document.real("norm_eps", 1e-5), biases=biases,
                 activation=document.activation("hidden_act", "relu2"), rope=rope(document, context, size, part=0.5),
                 **LAYER_NORM)
