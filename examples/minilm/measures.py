"""How close two sets of embeddings are: rows of length 1, the first exact, the second computed in half precision."""

from __future__ import annotations

import numpy as np


def cosines(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Cosine of the angle between each row and its counterpart."""
    lengths = np.linalg.norm(wanted, axis=1) * np.linalg.norm(found, axis=1)
    return np.sum(wanted * found, axis=1) / lengths


def spearman(wanted: np.ndarray, found: np.ndarray) -> float:
    """Rank correlation of the similarities of all pairs of rows."""
    pairs = np.triu_indices(len(wanted), 1)
    ranks = [np.argsort(np.argsort((rows @ rows.T)[pairs])) for rows in (wanted, found)]
    return float(np.corrcoef(*ranks)[0, 1])


def neighbours(wanted: np.ndarray, found: np.ndarray) -> tuple[int, int]:
    """Rows whose nearest other row is the same, of those where it leads the second by more than the error can move
    both."""
    exact, near = (rows @ rows.T - 3 * np.eye(len(rows)) for rows in (wanted, found))
    error = np.abs(exact - near).max()
    second, first = np.sort(exact, axis=1)[:, -2:].T
    decided = first - second > 2 * error
    return int((exact.argmax(axis=1) == near.argmax(axis=1))[decided].sum()), int(decided.sum())
