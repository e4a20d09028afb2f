"""Rotary positions as a `config.json` states them: in its own fields (`rope_theta`, `rope_scaling`), or as an object
(`rope_parameters`), which may have one for each kind of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.config import Rope
from openane.models.config_document import LAYERS, REMEDY, ConfigDocument, require_neutral

ROPES: Mapping[str, frozenset[str]] = {
    "default": frozenset(), "linear": frozenset({"factor"}), "dynamic": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor"}),
    "yarn": frozenset({"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}),
    "longrope": frozenset({"factor", "attention_factor", "short_factor", "long_factor"}),
}
"""Ways of stretching rotary positions, and what each is told."""
OTHER_NAMES = {"su": "longrope"}
SHARED = {"rope_type", "type", "rope_theta", "original_max_position_embeddings", "max_position_embeddings",
          "partial_rotary_factor"}


def rope(document: ConfigDocument, context: int, head_size: int, base: float = 10000.0, part: float | None = None,
         kind: str = "full_attention", neighbours: bool = False) -> Rope:
    """The positions of layers of a kind; `base` unless another is given. `part`: of a head is turned unless another is
    given (None: a whole head, and no other part is read)."""
    given = document.values.get("rope_parameters") or document.values.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise FormatError("'rope_scaling' of config.json", expected="an object", found=given)
    if given and given.keys() <= LAYERS.keys():
        given = given.get(kind) or {}
    if not isinstance(given, dict):
        raise FormatError("'rope_parameters' of config.json", expected="an object", found=given)
    require_neutral(given, () if part is None else ("partial_rotary_factor",))
    scaling = ConfigDocument(given)
    found = scaling.real("rope_theta", document.real("rope_theta", base))
    turned = 0
    if part is not None:
        share = scaling.real("partial_rotary_factor", document.real("partial_rotary_factor", part))
        turned = int(head_size * share) if share < 1 else 0
    return stretched(document, scaling, Rope(found, turned=turned, neighbours=neighbours), context,
                     turned or head_size)


def stretched(document: ConfigDocument, scaling: ConfigDocument, plain: Rope, context: int, size: int) -> Rope:
    """Positions stretched as an object says. UnsupportedError for a way or a field that is not described."""
    given = scaling.values
    named = given.get("rope_type", given.get("type")) or "default"
    kind = OTHER_NAMES.get(named, named) if isinstance(named, str) else named
    if not isinstance(kind, str) or kind not in ROPES:
        raise UnsupportedError(f"rope_type {kind!r}", "is not described", limit=", ".join(ROPES), remedy=REMEDY)
    if unknown := sorted(given.keys() - ROPES[kind] - SHARED):
        raise UnsupportedError(f"{unknown[0]} of a rope of type {kind!r}", "is not described",
                               limit=", ".join(sorted(ROPES[kind])) or "nothing more", found=given[unknown[0]],
                               remedy=REMEDY)
    common: dict[str, Any] = {"base": plain.base, "turned": plain.turned, "neighbours": plain.neighbours, "kind": kind}
    if kind == "default":
        return plain
    if kind == "longrope":
        return _longrope(document, scaling, common, context, size)
    common |= {"factor": scaling.real("factor", 1.0),
               "original": scaling.whole("original_max_position_embeddings", context)}
    if kind == "llama3":
        return Rope(**common, low=scaling.real("low_freq_factor", 1.0), high=scaling.real("high_freq_factor", 4.0))
    if kind == "yarn":
        return Rope(**common, low=scaling.real("beta_slow", 1.0), high=scaling.real("beta_fast", 32.0),
                    attention=_yarn_attention(scaling, common["factor"]), truncated=scaling.flag("truncate", True))
    return Rope(**common)


def _longrope(document: ConfigDocument, scaling: ConfigDocument, common: dict[str, Any], context: int,
              size: int) -> Rope:
    """Divisors for contexts up to the original length and beyond it, and what cosines and sines are scaled by."""
    original = scaling.whole("original_max_position_embeddings",
                             document.whole("original_max_position_embeddings", context))
    factor = scaling.real("factor", context / original)
    plain = 1.0 if factor <= 1 or original < 2 else math.sqrt(1 + math.log(factor) / math.log(original))
    return Rope(**common, factor=factor, original=original, attention=scaling.real("attention_factor", plain),
                short=scaling.numbers("short_factor", size // 2), long=scaling.numbers("long_factor", size // 2))


def _yarn_attention(scaling: ConfigDocument, factor: float) -> float | None:
    """What cosines and sines are scaled by, where it is given: itself, or as a ratio of two scales."""
    given = scaling.values
    if given.get("attention_factor") is not None:
        return scaling.real("attention_factor", 1.0)
    if not given.get("mscale") or not given.get("mscale_all_dim"):
        return None
    above, below = (0.1 * scaling.real(name, 1.0) * math.log(max(factor, 1.0)) + 1
                    for name in ("mscale", "mscale_all_dim"))
    return above / below
