"""What layers are given on samples, as moments: those to round by, and those of vectors kept apart to choose by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from openane.quantization.measuring import Sample
from openane.quantization.moments import LayerMoments, moments_of

APART = 4
"""One of so many samples is kept apart."""
TOGETHER = 4096
"""Vectors whose products are summed at once."""
Look = Callable[[int], tuple[np.ndarray, np.ndarray | None]]
"""What a layer is given for the so-manieth sample, vectors [groups, vectors, inputs], and what its results lack."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Samples to round by, and those to decide and measure on: the same one where there is one."""

    fit: Sequence[Sample]
    held: Sequence[Sample]

    @property
    def all(self) -> list[Sample]:
        """Those to round by first."""
        return [*self.fit, *(() if self.held is self.fit else self.held)]


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What a layer's matrices are multiplied with: moments to round by, and of vectors kept apart to choose by."""

    fit: LayerMoments
    check: LayerMoments


def parted(samples: Sequence[Sample]) -> Parts:
    """The samples in two parts: every fourth one is kept apart, the last of fewer."""
    if len(samples) < 2:
        return Parts(samples, samples)
    first = min(APART, len(samples)) - 1
    held = samples[first::APART]
    return Parts([sample for place, sample in enumerate(samples) if place % APART != first], held)


def counted(sample: Sample, vectors: np.ndarray) -> np.ndarray:
    """Vectors [groups, vectors, ...] of a sample without those of padding: places that are 0 in its only mask (an input
    with "mask" in its name) of zeros and ones, where that has a place for each."""
    found = [array.ravel() != 0 for name, array in sample.items() if "mask" in name and np.isin(array, (0, 1)).all()]
    if len(found) != 1 or not found[0].any() or found[0].size != vectors.shape[1]:
        return vectors
    return vectors[:, found[0]]


def inputs_seen(look: Look, parts: Parts) -> LayerInputs | None:
    """Moments of what a layer is given, None where that is not finite or too little."""
    fit, whole = len(parts.fit), len(parts.all)
    if fit == whole:  # one sample, in two parts
        vectors, missing = look(0)
        first = vectors.shape[1] - vectors.shape[1] // APART
        halves = [(vectors[:, part], None if missing is None else missing[:, part])
                  for part in (slice(first), slice(first, None))]
        found = [_moments([half]) for half in halves]
    else:
        found = [_moments(map(look, part)) for part in (range(fit), range(fit, whole))]
    return None if found[0] is None or found[1] is None else LayerInputs(found[0], found[1])


def _moments(several: Iterable[tuple[np.ndarray, np.ndarray | None]]) -> LayerMoments | None:
    """Moments of vectors, a few thousand at a time."""
    whole: LayerMoments | None = None
    waiting: list[tuple[np.ndarray, np.ndarray | None]] = []
    for vectors, missing in several:
        if not vectors.shape[1] or not np.isfinite(vectors).all() or \
                (missing is not None and not np.isfinite(missing).all()):
            return None
        waiting.append((vectors, missing))
        if sum(each.shape[1] for each, _ in waiting) >= TOGETHER:
            whole = _joined(whole, waiting)
            waiting = []
    return _joined(whole, waiting) if waiting else whole


def _joined(whole: LayerMoments | None, several: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> LayerMoments:
    missing = [each for _, each in several if each is not None]
    found = moments_of(np.concatenate([vectors for vectors, _ in several], axis=1),
                       np.concatenate(missing, axis=1) if missing else None)
    return found if whole is None else whole.joined(found)
