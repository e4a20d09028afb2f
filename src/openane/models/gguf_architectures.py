"""Architectures of GGUF files: which family's configuration each states, and what its tensors are called.

llama.cpp gives the parts of all architectures the same names, adds 1 to gains that are stored less 1, and puts fused
queries, keys and values one below the other. Rotary pairs are neighbours in the architectures that `neighbours` marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openane.models.naming import FamilyNames

PARTS = {"attn_q": "query", "attn_k": "key", "attn_v": "value", "attn_output": "output", "ffn_gate": "gate",
         "ffn_up": "up", "ffn_down": "down", "attn_norm": "norm1", "ffn_norm": "norm2", "attn_q_norm": "query_norm",
         "attn_k_norm": "key_norm", "post_attention_norm": "after1", "post_ffw_norm": "after2",
         "ffn_gate_inp": "router", "ffn_gate_exps": "gate", "ffn_up_exps": "up", "ffn_down_exps": "down"}
WHOLE = {"token_embd": "embedding", "token_embd_norm": "embedding.norm", "position_embd": "positions",
         "output_norm": "norm", "output": "head"}
"""llama.cpp's names of tensors, and ours."""
FUSED = {"attn_qkv": ("query", "key", "value")}
SIZES = {"hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
         "num_hidden_layers": "block_count", "num_attention_heads": "attention.head_count",
         "num_key_value_heads": "attention.head_count_kv", "rms_norm_eps": "attention.layer_norm_rms_epsilon",
         "rope_theta": "rope.freq_base", "max_position_embeddings": "context_length",
         "head_dim": "attention.key_length", "layer_norm_eps": "attention.layer_norm_epsilon",
         "layer_norm_epsilon": "attention.layer_norm_epsilon", "norm_epsilon": "attention.layer_norm_epsilon",
         "norm_eps": "attention.layer_norm_epsilon", "clip_qkv": "attention.clamp_kqv",
         "num_experts": "expert_count", "num_local_experts": "expert_count",
         "num_experts_per_tok": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
         "use_parallel_residual": "use_parallel_residual", "sliding_window": "attention.sliding_window",
         "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
         "rope_local_base_freq": "rope.freq_base_swa", "embedding_multiplier": "embedding_scale",
         "residual_multiplier": "residual_scale", "attention_multiplier": "attention.scale"}
"""Fields of a `config.json`, and llama.cpp's keys after the architecture's name."""
GPT2_SIZES = {"n_embd": "embedding_length", "n_inner": "feed_forward_length", "n_layer": "block_count",
              "n_head": "attention.head_count", "n_positions": "context_length",
              "layer_norm_epsilon": "attention.layer_norm_epsilon"}
BLOOM_SIZES = {"hidden_size": "embedding_length", "n_layer": "block_count", "n_head": "attention.head_count",
               "layer_norm_epsilon": "attention.layer_norm_epsilon", "seq_length": "context_length"}


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """`model_type` whose configuration it states, `fixed` fields that a file does not hold, and `sizes` its keys.
    `neighbours`: whether rotary pairs are; `joined`: whether `ffn_up` holds the gate, too. `biased`: what says in a
    `config.json` that queries have a bias."""

    model_type: str
    neighbours: bool = False
    joined: bool = False
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    fixed: Mapping[str, object] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    biased: str = "attention_bias"

    @property
    def names(self) -> FamilyNames:
        """What its tensors are called."""
        fused = {**FUSED, "ffn_up": ("gate", "up")} if self.joined else FUSED
        parts = {**PARTS, **self.parts}
        return FamilyNames({part: ours for part, ours in parts.items() if part not in fused}, WHOLE, fused)


SILU = {"hidden_act": "silu"}
ARCHITECTURES: Mapping[str, GgufArchitecture] = {
    "llama": GgufArchitecture("llama", True, fixed=SILU), "qwen2": GgufArchitecture("qwen2", fixed=SILU),
    "qwen3": GgufArchitecture("qwen3", fixed=SILU),
    "qwen3moe": GgufArchitecture("qwen3_moe", fixed={"norm_topk_prob": True}), "olmoe": GgufArchitecture("olmoe"),
    "gemma": GgufArchitecture("gemma"), "gemma2": GgufArchitecture("gemma2"),
    "gemma3": GgufArchitecture("gemma3_text"), "phi3": GgufArchitecture("phi3", joined=True),
    "smollm3": GgufArchitecture("smollm3", True), "olmo": GgufArchitecture("olmo", True),
    "olmo2": GgufArchitecture("olmo2"), "granite": GgufArchitecture("granite", True),
    "arcee": GgufArchitecture("arcee", True), "starcoder2": GgufArchitecture("starcoder2", biased="use_bias"),
    "nemotron": GgufArchitecture("nemotron"), "gptneox": GgufArchitecture("gpt_neox"),
    "phi2": GgufArchitecture("phi"), "stablelm": GgufArchitecture("stablelm", biased="use_qkv_bias"),
    "command-r": GgufArchitecture("cohere", True, sizes={**SIZES, "logit_scale": "logit_scale"}),
    "cohere2": GgufArchitecture("cohere2", True, sizes={**SIZES, "logit_scale": "logit_scale"}),
    "gpt2": GgufArchitecture("gpt2", sizes=GPT2_SIZES), "bloom": GgufArchitecture("bloom", sizes=BLOOM_SIZES),
    "starcoder": GgufArchitecture("gpt_bigcode", sizes=GPT2_SIZES),
}
"""By `general.architecture`."""
