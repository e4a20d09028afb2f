"""Families whose feed-forward part is divided among experts."""

from __future__ import annotations

from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config, Experts
from openane.models.config_document import REMEDY, ConfigDocument
from openane.models.families.llama import ATTENTION, WHOLE, gated, multipliers, sliding
from openane.models.naming import LLAMA_PARTS, FamilyNames

EXPERTS = FamilyNames({**LLAMA_PARTS, "block_sparse_moe.gate": "router", "block_sparse_moe.experts.#.w1": "gate",
                       "block_sparse_moe.experts.#.w3": "up", "block_sparse_moe.experts.#.w2": "down",
                       "mlp.gate": "router", "mlp.experts.#.gate_proj": "gate", "mlp.experts.#.up_proj": "up",
                       "mlp.experts.#.down_proj": "down"}, WHOLE)

SHARED = FamilyNames({**EXPERTS.parts, "mlp.shared_expert_gate": "share"}, WHOLE, shared={
    f"mlp.shared_expert.{theirs}_proj": theirs for theirs in ("gate", "up", "down")})
JOINED = FamilyNames({**LLAMA_PARTS, "block_sparse_moe.router.layer": "router",
                      "block_sparse_moe.output_linear": "down"}, WHOLE,
                     {"block_sparse_moe.input_linear": ("gate", "up")})


def mixtral(document: ConfigDocument) -> Config:
    """Mixtral: shares of the chosen experts add up to 1."""
    return _mixture(document, "num_local_experts", 8, 2, document.whole("intermediate_size"), **sliding(document, True))


def qwen2_moe(document: ConfigDocument) -> Config:
    """Qwen2 and 1.5 with experts, one of which every token takes."""
    _require_experts_everywhere(document)
    return _mixture(document, "num_experts", 60, 4, document.whole("moe_intermediate_size", 1408), family="shared",
                    shared=document.whole("shared_expert_intermediate_size", 5632),
                    biases=ATTENTION - {"output"} if document.flag("qkv_bias", True) else frozenset(),
                    normalised=document.flag("norm_topk_prob", False))


def granitemoe(document: ConfigDocument) -> Config:
    """Granite with experts."""
    return _mixture(document, "num_local_experts", 8, 2, document.whole("intermediate_size"), family="joined",
                    **multipliers(document))


def _require_experts_everywhere(document: ConfigDocument) -> None:
    if document.whole("decoder_sparse_step", 1) != 1 or document.values.get("mlp_only_layers"):
        raise UnsupportedError("decoder_sparse_step and mlp_only_layers of config.json", "every layer has experts",
                               limit="1 and none", found=document.values.get("mlp_only_layers"), remedy=REMEDY)


def qwen3_moe(document: ConfigDocument) -> Config:
    """Qwen3 with experts in every layer."""
    _require_experts_everywhere(document)
    return _mixture(document, "num_experts", 128, 8, document.whole("moe_intermediate_size", 768), normed_heads=True,
                    normalised=document.flag("norm_topk_prob", False))


def olmoe(document: ConfigDocument) -> Config:
    """OLMoE: queries and keys are normalised over all heads."""
    return _mixture(document, "num_experts", 64, 8, document.whole("intermediate_size"), normed_rows=True,
                    normalised=document.flag("norm_topk_prob", False))


def _mixture(document: ConfigDocument, field: str, count: int, chosen: int, each: int, normalised: bool = True,
             shared: int = 0, **variant: Any) -> Config:
    experts = Experts(document.whole(field, document.values.get("num_local_experts", count)),
                      document.whole("num_experts_per_tok", chosen), normalised, shared)
    family = variant.pop("family", "experts")
    return gated(document, family=family, experts=experts, hidden=experts.count * each + shared,
                 epsilon=document.real("rms_norm_eps", 1e-5), **variant)
