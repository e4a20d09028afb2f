"""all-MiniLM-L6-v2 in numpy float32, from the names of the file it comes in: what the engine is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf

LAYERS, HEADS, EPSILON = 6, 12, 1e-12
Weights = dict[str, np.ndarray]


def embeddings(folder: Path, batch: Iterable[Sequence[int]]) -> np.ndarray:
    """Embeddings [sentences, 384] float32 of length 1, for the token numbers of each sentence, without padding."""
    weights = load_file(folder / "model.safetensors")
    return np.stack([_embedding(weights, np.array(numbers)) for numbers in batch])


def _embedding(weights: Weights, numbers: np.ndarray) -> np.ndarray:
    tables = [weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    x = tables[0][numbers] + tables[1][:len(numbers)] + tables[2][0]
    x = _normalised(weights, "embeddings.LayerNorm", x)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        mixed = _dense(weights, f"{layer}.attention.output.dense", _attention(weights, f"{layer}.attention.self", x))
        x = _normalised(weights, f"{layer}.attention.output.LayerNorm", x + mixed)
        hidden = _dense(weights, f"{layer}.intermediate.dense", x)
        hidden *= (1 + erf(hidden / np.sqrt(np.float32(2)))) / 2
        x = _normalised(weights, f"{layer}.output.LayerNorm", x + _dense(weights, f"{layer}.output.dense", hidden))
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _attention(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    query, key, value = (_dense(weights, f"{name}.{part}", x).reshape(len(x), HEADS, -1).swapaxes(0, 1)
                         for part in ("query", "key", "value"))
    scores = query @ key.swapaxes(1, 2) / np.sqrt(np.float32(query.shape[2]))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return (shares @ value).swapaxes(0, 1).reshape(len(x), -1)


def _dense(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _normalised(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    deviation = x - x.mean(axis=-1, keepdims=True)
    deviation /= np.sqrt(np.square(deviation).mean(axis=-1, keepdims=True) + EPSILON)
    return deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]
