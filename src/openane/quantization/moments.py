"""Second moments of what layers are given: which errors of a weight its layer's results show, and which they do not.

The error of a layer's results is the sum over its outputs of e H e', where e is the error of a row of its weight and H
the second moments of its inputs. Where the layer has a bias, the mean of the error goes into that, and H is the
covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class InputMoments:
    """Of `count` vectors: their `mean` [groups, inputs] and the mean of their products `square` [groups, inputs,
    inputs], float64."""

    count: int
    mean: np.ndarray
    square: np.ndarray

    def centred(self) -> np.ndarray:
        """The covariance."""
        return np.asarray(self.square - self.mean[:, :, None] * self.mean[:, None, :])

    def joined(self, other: InputMoments) -> InputMoments:
        """Those of both sets of vectors."""
        share = np.float32(self.count / (self.count + other.count))
        return InputMoments(self.count + other.count, *(share * a + (1 - share) * b for a, b in (
            (self.mean, other.mean), (self.square, other.square))))


def moments_of(vectors: np.ndarray) -> InputMoments:
    """The moments of vectors [groups, vectors, inputs], which are finite."""
    count = vectors.shape[1]
    square = np.matmul(vectors.swapaxes(1, 2), vectors)
    return InputMoments(count, vectors.mean(1, dtype=np.float64), square.astype(np.float64) / count)


def squared_error(difference: np.ndarray, moments: np.ndarray) -> float:
    """The mean square that weights' differences [groups, outputs, inputs] make in results, summed over outputs."""
    return float(np.vdot(np.matmul(difference, moments), difference))
