"""Which family each `model_type` is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openane.models.config import Config
from openane.models.config_document import ConfigDocument, model_type, require_neutral
from openane.models.families import gemma, llama, mixtures, parallel, plain
from openane.models.naming import FamilyNames


@dataclass(frozen=True, slots=True)
class FamilyReader:
    """What reads the configurations of a `model_type`; `fields` are those of `NEUTRAL` that it reads itself."""

    config: Callable[[ConfigDocument], Config]
    fields: frozenset[str] = frozenset()


WINDOWS = frozenset({"layer_types", "use_sliding_window"})
CAPS = frozenset({"layer_types", "attn_logit_softcapping", "final_logit_softcapping"})
PARTS = frozenset({"partial_rotary_factor"})
FACTORS = frozenset({"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"})
LOGITS = frozenset({"logit_scale"})
FAMILIES: Mapping[str, FamilyReader] = {
    "llama": FamilyReader(llama.llama), "mistral": FamilyReader(llama.mistral, WINDOWS),
    "qwen2": FamilyReader(llama.qwen2, WINDOWS), "qwen3": FamilyReader(llama.qwen3, WINDOWS),
    "phi3": FamilyReader(llama.phi3, WINDOWS | PARTS), "smollm3": FamilyReader(llama.smollm3, WINDOWS),
    "olmo": FamilyReader(llama.olmo), "olmo2": FamilyReader(llama.olmo2),
    "olmo3": FamilyReader(llama.olmo3, WINDOWS), "granite": FamilyReader(llama.granite, FACTORS),
    "ministral": FamilyReader(llama.mistral, WINDOWS), "helium": FamilyReader(llama.helium),
    "ernie4_5": FamilyReader(llama.ernie4_5), "seed_oss": FamilyReader(llama.seed_oss),
    "arcee": FamilyReader(llama.arcee), "glm": FamilyReader(llama.glm, PARTS), "glm4": FamilyReader(llama.glm4, PARTS),
    "exaone4": FamilyReader(llama.exaone4, WINDOWS), "cwm": FamilyReader(llama.cwm, WINDOWS),
    "mixtral": FamilyReader(mixtures.mixtral, WINDOWS), "qwen3_moe": FamilyReader(mixtures.qwen3_moe),
    "olmoe": FamilyReader(mixtures.olmoe), "qwen2_moe": FamilyReader(mixtures.qwen2_moe),
    "granitemoe": FamilyReader(mixtures.granitemoe, FACTORS),
    "gemma": FamilyReader(gemma.gemma), "gemma2": FamilyReader(gemma.gemma2, CAPS),
    "gemma3_text": FamilyReader(gemma.gemma3, CAPS),
    "gemma3": FamilyReader(gemma.gemma3_of_images, CAPS),
    "gpt2": FamilyReader(plain.gpt2), "gpt_bigcode": FamilyReader(plain.gpt_bigcode),
    "gpt_neo": FamilyReader(plain.gpt_neo), "opt": FamilyReader(plain.opt), "bloom": FamilyReader(plain.bloom),
    "starcoder2": FamilyReader(plain.starcoder2, WINDOWS), "nemotron": FamilyReader(plain.nemotron, PARTS),
    "gpt_neox": FamilyReader(parallel.gpt_neox, PARTS), "gptj": FamilyReader(parallel.gptj),
    "phi": FamilyReader(parallel.phi, PARTS), "stablelm": FamilyReader(parallel.stablelm, PARTS),
    "codegen": FamilyReader(parallel.codegen), "mpt": FamilyReader(plain.mpt, LOGITS),
    "falcon": FamilyReader(parallel.falcon), "cohere": FamilyReader(parallel.cohere, LOGITS),
    "cohere2": FamilyReader(parallel.cohere2, LOGITS | WINDOWS | {"position_embedding_type"}),
    "bert": FamilyReader(plain.bert),
}
"""`model_type` of a config.json."""
NAMES: Mapping[str, FamilyNames] = {
    "llama": llama.NAMES, "fused": llama.FUSED, "normed after": llama.AFTER, "glm4": llama.GLM4,
    "experts": mixtures.EXPERTS, "shared": mixtures.SHARED, "joined": mixtures.JOINED,
    "gemma": gemma.NAMES, "gemma2": gemma.BOTH_SIDES, "gpt2": plain.GPT2,
    "gpt_bigcode": plain.BIGCODE, "gpt_neo": plain.GPT_NEO, "opt": plain.OPT, "bloom": plain.BLOOM,
    "starcoder2": plain.STARCODER, "nemotron": plain.NEMOTRON, "gpt_neox": parallel.NEOX, "gptj": parallel.GPTJ,
    "codegen": parallel.CODEGEN, "mpt": plain.MPT, "phi": parallel.PHI, "falcon": parallel.FALCON, "bert": plain.BERT,
}
"""What weights are called, by `Config.family`."""


def of_huggingface(document: Mapping[str, Any]) -> Config:
    """The configuration in a `config.json`. UnsupportedError for a family or variant that is not built here;
    FormatError when a number is missing or wrong."""
    family = FAMILIES[model_type(document, FAMILIES, "no such language model is described")]
    require_neutral(document, family.fields)
    return family.config(ConfigDocument(document))
