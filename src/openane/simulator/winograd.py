"""3x3 convolutions of stride 1 through Winograd F(2, 3) along the width, as the engines from H17 on compute them.

Which convolutions take this form is known of dense ones only; grouped and depthwise ones, other kernels and strides
are computed directly. Runs in exact arithmetic; `fast` knows one form of convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from openane.engine import Convolution, Operation
from openane.rounding import ceil_div
from openane.simulator.arithmetic.winograd import transformed_inputs, transformed_weights, untransformed
from openane.simulator.convolution import ConvolutionTask
from openane.simulator.tiles import Tile, TileElements
from openane.simulator.weights import ConvolutionWeights

KERNEL = (1, 3, 3)


def transformable(operation: Operation) -> bool:
    """Whether an engine that has the form uses it for the operation."""
    return (isinstance(operation, Convolution) and operation.kernel == KERNEL and operation.stride == (1, 1, 1)
            and not operation.unicast)


class WinogradTask(ConvolutionTask):
    """A dense 3x3 convolution of stride 1 with both transforms rounded to fp16."""

    def _table(self, weights: ConvolutionWeights) -> None:
        """A transform rounds sums of several elements."""

    def _plan(self) -> Iterator[Tile]:
        """Tiles that begin at even columns, so that no pair of outputs is cut."""
        for tile in super()._plan():
            low, high = tile.columns
            cut = (low + low % 2, high + high % 2 if high < self._result.shape[4] else high)
            if cut[0] < cut[1]:
                yield replace(tile, columns=cut)

    def _sums(self, piece: TileElements, weights: ConvolutionWeights) -> np.ndarray:
        """As of `ConvolutionTask`; terms are [kernel rows * inputs * kernel columns]."""
        tile, slab = piece.tile, self._slab(piece)[:, :, 0]
        (high, wide), terms = piece.target.shape[2:], weights.values[self._sets(tile), slice(*tile.channels)][0].T
        groups, channels, pairs = tile.count, terms.shape[1], ceil_div(wide, 2)
        even = np.pad(slab, ((0, 0), (0, 0), (0, 0), (0, 2 * pairs - wide)))
        inputs = transformed_inputs([even[..., i:i + 2 * pairs:2] for i in range(4)])
        kernels = transformed_weights([terms[i::3] for i in range(3)])
        sums = []
        for data, kernel in zip(inputs, kernels, strict=True):
            rows = data if self._beside else data[0][:, None]
            columns = np.stack([rows[:, :, row:row + high] for row in range(3)])
            sums.append(self._accumulator.outer(kernel, columns.reshape(len(kernel), -1)))
        result = np.empty((channels, groups, high, pairs, 2))
        for place, values in enumerate(untransformed(sums)):
            result[..., place] = values.reshape(channels, groups, high, pairs)
        result = result.reshape(channels, groups, high, 2 * pairs)[..., :wide]
        return result.reshape(channels, -1) if self._beside else result.reshape(1, channels, -1)
