"""Which family each `model_type` is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openane.errors import UnsupportedError
from openane.models.config import Config
from openane.models.families import gemma, llama, plain
from openane.models.families.document import REMEDY, ConfigDocument, require_neutral
from openane.models.naming import FamilyNames


@dataclass(frozen=True, slots=True)
class FamilyReader:
    """What reads the configurations of a `model_type`; `fields` are those of `NEUTRAL` that it reads itself."""

    config: Callable[[ConfigDocument], Config]
    fields: frozenset[str] = frozenset()


WINDOWS = frozenset({"layer_types", "use_sliding_window"})
CAPS = frozenset({"layer_types", "attn_logit_softcapping", "final_logit_softcapping"})
PARTS = frozenset({"partial_rotary_factor"})
FAMILIES: Mapping[str, FamilyReader] = {
    "llama": FamilyReader(llama.llama), "mistral": FamilyReader(llama.mistral, WINDOWS),
    "qwen2": FamilyReader(llama.qwen2, WINDOWS), "qwen3": FamilyReader(llama.qwen3, WINDOWS),
    "phi3": FamilyReader(llama.phi3, WINDOWS | PARTS), "smollm3": FamilyReader(llama.smollm3, WINDOWS),
    "olmo": FamilyReader(llama.olmo), "olmo2": FamilyReader(llama.olmo2),
    "mixtral": FamilyReader(llama.mixtral, WINDOWS),
    "gemma": FamilyReader(gemma.gemma), "gemma2": FamilyReader(gemma.gemma2, CAPS),
    "gemma3_text": FamilyReader(gemma.gemma3, CAPS),
    "gpt2": FamilyReader(plain.gpt2), "gpt_neox": FamilyReader(plain.gpt_neox, PARTS),
    "starcoder2": FamilyReader(plain.starcoder2, WINDOWS), "bert": FamilyReader(plain.bert),
}
"""`model_type` of a config.json."""
NAMES: Mapping[str, FamilyNames] = {
    "llama": llama.NAMES, "fused": llama.FUSED, "normed after": llama.AFTER, "experts": llama.EXPERTS,
    "gemma": gemma.NAMES, "gemma2": gemma.BOTH_SIDES, "gpt2": plain.GPT2, "gpt_neox": plain.NEOX,
    "starcoder2": plain.STARCODER, "bert": plain.BERT,
}
"""What weights are called, by `Config.family`."""


def of_huggingface(document: Mapping[str, Any]) -> Config:
    """The configuration in a `config.json`. UnsupportedError for a family or variant that is not built here;
    FormatError when a number is missing or wrong."""
    kind = document.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnsupportedError(f"model_type {kind!r}", "no such language model is described",
                               limit=", ".join(FAMILIES), remedy=REMEDY)
    family = FAMILIES[kind]
    require_neutral(document, family.fields)
    return family.config(ConfigDocument(document))
