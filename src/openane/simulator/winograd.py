"""3x3 convolutions of stride 1 through Winograd F(2, 3) along the width, as the engines from H17 on compute them.

Which convolutions take this form is known of dense ones only; grouped and depthwise ones, other kernels and strides
are computed directly. Runs in exact arithmetic; `fast` knows one form of convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from openane.engine import Convolution, Operation
from openane.simulator.arithmetic.half import Floats
from openane.simulator.arithmetic.winograd import transformed_inputs, transformed_weights, untransformed
from openane.simulator.convolution import ConvolutionTask, Tile

KERNEL = (1, 3, 3)


def transformable(operation: Operation) -> bool:
    """Whether an engine that has the form uses it for the operation."""
    return (isinstance(operation, Convolution) and operation.kernel == KERNEL and operation.stride == (1, 1, 1)
            and not operation.unicast)


class WinogradTask(ConvolutionTask):
    """A dense 3x3 convolution of stride 1 with both transforms rounded to fp16."""

    def _plan(self) -> Iterator[Tile]:
        """Tiles that begin at even columns, so that no pair of outputs is cut."""
        for tile in super()._plan():
            low, high = tile.columns
            cut = (low + low % 2, high + high % 2 if high < self._result.shape[4] else high)
            if cut[0] < cut[1]:
                yield replace(tile, columns=cut)

    def _sums(self, tile: Tile, terms: Floats, finite: bool) -> np.ndarray:
        """[channels, positions] of a tile; `terms` is [kernel rows * inputs * kernel columns, channels]."""
        slab = self._slab(tile)[:, 0]
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        pairs = -(-wide // 2)
        even = np.pad(slab, ((0, 0), (0, 0), (0, 2 * pairs - wide)))
        inputs = transformed_inputs([even[:, :, i:i + 2 * pairs:2] for i in range(4)])
        kernels = transformed_weights([terms[i::3] for i in range(3)])
        sums = []
        for data, kernel in zip(inputs, kernels, strict=True):
            columns = np.stack([data[:, row:row + high] for row in range(3)])
            sums.append(self._accumulator.outer(kernel, columns.reshape(len(kernel), -1)))
        result = np.empty((terms.shape[1], high, pairs, 2))
        for place, values in enumerate(untransformed(sums)):
            result[..., place] = values.reshape(-1, high, pairs)
        return result.reshape(-1, high, 2 * pairs)[:, :, :wide].reshape(terms.shape[1], -1)
