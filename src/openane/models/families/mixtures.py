"""Families whose feed-forward part is divided among experts."""

from __future__ import annotations

from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config, Experts
from openane.models.families.document import REMEDY, ConfigDocument
from openane.models.families.llama import WHOLE, gated, sliding
from openane.models.naming import LLAMA_PARTS, FamilyNames

EXPERTS = FamilyNames({**LLAMA_PARTS, "block_sparse_moe.gate": "router", "block_sparse_moe.experts.#.w1": "gate",
                       "block_sparse_moe.experts.#.w3": "up", "block_sparse_moe.experts.#.w2": "down",
                       "mlp.gate": "router", "mlp.experts.#.gate_proj": "gate", "mlp.experts.#.up_proj": "up",
                       "mlp.experts.#.down_proj": "down"}, WHOLE)


def mixtral(document: ConfigDocument) -> Config:
    """Mixtral: shares of the chosen experts add up to 1."""
    return _mixture(document, "num_local_experts", 8, 2, document.whole("intermediate_size"), **sliding(document, True))


def qwen3_moe(document: ConfigDocument) -> Config:
    """Qwen3 with experts in every layer."""
    if document.whole("decoder_sparse_step", 1) != 1 or document.values.get("mlp_only_layers"):
        raise UnsupportedError("decoder_sparse_step and mlp_only_layers of config.json", "every layer has experts",
                               limit="1 and none", found=document.values.get("mlp_only_layers"), remedy=REMEDY)
    return _mixture(document, "num_experts", 128, 8, document.whole("moe_intermediate_size", 768), normed_heads=True,
                    normalised=document.flag("norm_topk_prob", False))


def olmoe(document: ConfigDocument) -> Config:
    """OLMoE: queries and keys are normalised over all heads."""
    return _mixture(document, "num_experts", 64, 8, document.whole("intermediate_size"), normed_rows=True,
                    normalised=document.flag("norm_topk_prob", False))


def _mixture(document: ConfigDocument, field: str, count: int, chosen: int, each: int, normalised: bool = True,
             **variant: Any) -> Config:
    experts = Experts(document.whole(field, document.values.get("num_local_experts", count)),
                      document.whole("num_experts_per_tok", chosen), normalised)
    return gated(document, family="experts", experts=experts, hidden=experts.count * each,
                 epsilon=document.real("rms_norm_eps", 1e-5), **variant)
