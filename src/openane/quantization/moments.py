"""Second moments of what layers are given: which errors of a weight its layer's results show, and which they do not.

The error of a layer's results is the sum over its outputs of e H e', where e is the error of a row of its weight and H
the second moments of its inputs. Where the layer has a bias, the mean of the error goes into that, and H is the
covariance. Behind layers that are rounded already, something is missing in the results even with the weight as it is:
its products with the inputs say how much of that the weight can make good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LayerMoments:
    """Of `count` vectors: their `mean` [groups, inputs] and the mean of their products `square` [groups, inputs,
    inputs]; of what the results lack with the weight as it is, the mean `lacking` [groups, outputs], and the mean of
    its products with the vectors, `missing` [groups, outputs, inputs]; both None where nothing is lacking. float64."""

    count: int
    mean: np.ndarray
    square: np.ndarray
    lacking: np.ndarray | None = None
    missing: np.ndarray | None = None

    def centred(self) -> LayerMoments:
        """Those about the means."""
        square = self.square - self.mean[:, :, None] * self.mean[:, None, :]
        if self.lacking is None or self.missing is None:
            return LayerMoments(self.count, self.mean, square)
        missing = self.missing - self.lacking[:, :, None] * self.mean[:, None, :]
        return LayerMoments(self.count, self.mean, square, self.lacking, missing)

    def joined(self, other: LayerMoments) -> LayerMoments:
        """Those of both sets of vectors."""
        share = self.count / (self.count + other.count)

        def both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
            return None if a is None or b is None else share * a + (1 - share) * b

        return LayerMoments(self.count + other.count, share * self.mean + (1 - share) * other.mean,
                            share * self.square + (1 - share) * other.square, both(self.lacking, other.lacking),
                            both(self.missing, other.missing))

    def squared_error(self, difference: np.ndarray) -> float:
        """The mean square error of results, summed over outputs, with `difference` [groups, outputs, inputs] added to
        the weight, less that with the weight as it is."""
        error = float(np.vdot(np.matmul(difference, self.square), difference))
        return error if self.missing is None else error - 2 * float(np.vdot(difference, self.missing))


def moments_of(vectors: np.ndarray, missing: np.ndarray | None = None) -> LayerMoments:
    """The moments of vectors [groups, vectors, inputs], which are finite, and of what results [groups, vectors,
    outputs] lack for each."""
    count = vectors.shape[1]
    mean = vectors.mean(1, dtype=np.float64)
    square = np.matmul(vectors.swapaxes(1, 2), vectors).astype(np.float64) / count
    if missing is None:
        return LayerMoments(count, mean, square)
    return LayerMoments(count, mean, square, missing.mean(1, dtype=np.float64),
                        np.matmul(missing.swapaxes(1, 2), vectors).astype(np.float64) / count)
