"""Scores as shares of 1, float32: what models of classes say."""

from __future__ import annotations

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Shares over the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True), np.float32)


def logistic(logits: np.ndarray) -> np.ndarray:
    """Each score's own share, whatever the others are."""
    return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def label_shares(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; of one number alone its logistic function."""
    return logistic(logits) if logits.shape[-1] == 1 else softmax(logits)
