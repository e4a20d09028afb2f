"""Families with layer normalisation and a feed-forward part without a gate."""

from __future__ import annotations

from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config
from openane.models.families.document import ConfigDocument
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
NEOX = FamilyNames({"input_layernorm": "norm1", "post_attention_layernorm": "norm2", "attention.dense": "output",
                    "mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down"},
                   {"embed_in": "embedding", "final_layer_norm": "norm", "embed_out": "head"},
                   {"attention.query_key_value": ("query", "key", "value")}, grouped=True)
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
    if document.flag("is_decoder", False):
        raise UnsupportedError("is_decoder of config.json", "an encoder's tokens see each other", limit=False)
    return Config("bert", document.whole("vocab_size"), width, document.whole("num_hidden_layers"), heads, heads,
                  max(width // heads, 1), document.whole("intermediate_size"),
                  document.whole("max_position_embeddings", 512), document.real("layer_norm_eps", 1e-12),
                  document.activation("hidden_act", "gelu"), True, ALL_BIASES | {"pooler"},
                  types=document.whole("type_vocab_size", 2), positions="learned", **LAYER_NORM)


def gpt_neox(document: ConfigDocument) -> Config:
    """GPT-NeoX and Pythia: attention and feed-forward side by side, a part of each head turned."""
    width, heads = document.whole("hidden_size"), document.whole("num_attention_heads")
    context, size = document.whole("max_position_embeddings", 2048), max(width // heads, 1)
    biases = {"up", "down"} | (ATTENTION if document.flag("attention_bias", True) else set())
    turning = rope(document, context, size, document.real("rotary_emb_base", 10000.0),
                   part=document.real("rotary_pct", 0.25))
    return gated(document, family="gpt_neox", epsilon=document.real("layer_norm_eps", 1e-5), kv_heads=heads,
                 activation=document.activation("hidden_act", "gelu"), biases=frozenset(biases), rope=turning,
                 parallel=document.flag("use_parallel_residual", True), **LAYER_NORM)


def starcoder2(document: ConfigDocument) -> Config:
    """StarCoder2: rotary positions, biases everywhere."""
    biases = ALL_BIASES if document.flag("use_bias", True) else frozenset()
    return gated(document, family="starcoder2", epsilon=document.real("norm_epsilon", 1e-5), biases=biases,
                 kv_heads=document.whole("num_key_value_heads", 2),
                 activation=document.activation("hidden_act", "gelu_pytorch_tanh"),
                 tied=document.flag("tie_word_embeddings", True), **sliding(document, True), **LAYER_NORM)
