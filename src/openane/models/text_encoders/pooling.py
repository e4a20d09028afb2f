"""One vector of a text's states, as the directory of a sentence encoder says: which states count, and whether the
vector is brought to length one. It is computed on the host in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.documents import optional

POOLINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(0),
    "mean": lambda states: states.mean(0),
    "mean_sqrt_len_tokens": lambda states: states.sum(0) / np.float32(np.sqrt(len(states))),
    "lasttoken": lambda states: states[-1],
}
"""What is made of states [tokens, width]; several stand one behind the other in this order."""
_FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
          "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_lasttoken": "lasttoken"}
_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class VectorPooling:
    """Names of POOLINGS, and whether the vector is divided by its length."""

    kinds: tuple[str, ...] = ("mean",)
    normalised: bool = False

    def of(self, states: np.ndarray) -> np.ndarray:
        """The vector of states [tokens, width], float32."""
        vector = np.concatenate([POOLINGS[kind](states) for kind in self.kinds]).astype(np.float32)
        return vector / max(np.linalg.norm(vector), np.float32(1e-12)) if self.normalised else vector


def transformer_folder(folder: Path) -> Path:
    """Where the encoder's own files are: the directory, or the part of it that modules.json calls the transformer."""
    named = [path for kind, path in _modules(folder) if kind == "Transformer"]
    return folder / named[0] if named and not (folder / "config.json").is_file() else folder


def of_folder(folder: Path) -> VectorPooling:
    """What modules.json and 1_Pooling/config.json say; the mean where there are none, as sentence-transformers does.
    UnsupportedError for other modules or ways of pooling."""
    modules = _modules(folder)
    if other := [kind for kind, _ in modules if kind not in _MODULES]:
        raise UnsupportedError(f"the module {other[0]} of modules.json", "is not built here",
                               limit=", ".join(_MODULES), remedy="take the states, and compute it from them")
    path = next((path for kind, path in modules if kind == "Pooling"), "1_Pooling")
    document = optional(folder / path, "config.json")
    normalised = any(kind == "Normalize" for kind, _ in modules)
    if document is None:
        return VectorPooling(normalised=normalised)
    if not isinstance(document, dict):
        raise FormatError(f"{path}/config.json", expected="an object", found=type(document).__name__)
    return VectorPooling(_kinds(document), normalised)


def _kinds(document: Mapping[str, object]) -> tuple[str, ...]:
    """The ways of pooling: one by name, or one flag for each."""
    stated = document.get("pooling_mode")
    if isinstance(stated, str):
        chosen = {stated}
    else:
        chosen = {_FLAGS.get(name, name) for name, value in document.items()
                  if name.startswith("pooling_mode_") and value is True}
    if unknown := sorted(chosen - POOLINGS.keys()):
        raise UnsupportedError(f"pooling {unknown[0]!r}", "is not described", limit=", ".join(POOLINGS),
                               remedy="take the states, and pool them yourself")
    return tuple(kind for kind in POOLINGS if kind in chosen) or ("mean",)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Each module's kind and folder."""
    document = optional(folder, "modules.json") or []
    whole = isinstance(document, list) and all(
        isinstance(module, dict) and isinstance(module.get("type"), str) and isinstance(module.get("path"), str)
        for module in document)
    if not whole or any(".." in Path(module["path"]).parts or Path(module["path"]).is_absolute()
                        for module in document):
        raise FormatError("modules.json", expected="a list of modules, each with its type and a path beside it",
                          found="something else")
    return [(module["type"].rpartition(".")[2], module["path"]) for module in document]
