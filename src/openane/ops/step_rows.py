"""Rows of whole steps as their norms and variances are computed: less a whole number near their mean, so that fp16
holds what is left."""

from __future__ import annotations

from math import prod

import numpy as np

from openane.engine import Binary, Reduction, Root
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.rounding import WHOLE
from openane.ops.stages import Stages
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class StepRows:
    """Rows of whole numbers d, less a whole number where norms are centred, and the mean of what is left then; with
    what whole numbers leave of each, where they were not whole."""

    lowering: Lowering
    d: Tensor
    mean: Tensor | None
    rest: Tensor | None = None

    @property
    def share(self) -> float:
        """What a sum over a row times this is a mean."""
        return 1 / prod(self.d.shape[1:])

    def cells(self, count: int) -> Tensor:
        """New storage for so many numbers to a row."""
        return self.lowering.near((self.d.shape[0], count, 1))

    def reduced(self, first: Tensor, second: Tensor, result: Tensor, function: Binary, *, negate: bool = False,
                final_scale: float = 1.0, epsilon: float = 0.0, root: Root = Root.NONE) -> None:
        """One number for each row of what becomes of two tensors."""
        access, read = self.lowering.access, (None, 0, None, 1, 2)
        self.lowering.emit(Reduction(
            first=access(first, read), second=access(second, read), result=access(result, (None, 0, None, None, None)),
            function=function, negate=negate, final_scale=float(np.float32(final_scale)), epsilon=half(epsilon),
            root=root))


def centred_rows(lowering: Lowering, x: Tensor) -> StepRows:
    """Less the whole number nearest to the mean."""
    share, single = 1 / prod(x.shape[1:]), (x.shape[0], 1, 1)
    whole, mean = lowering.near(single), lowering.near(single)
    lowering.reduce(whole, x, (1, 2), final_scale=share, epsilon=WHOLE)
    d = Stages(lowering, x.shape).planar(x, whole, subtract=True, bias=WHOLE)
    lowering.reduce(mean, d, (1, 2), final_scale=share)
    return StepRows(lowering, d, mean)


def rows_as_given(lowering: Lowering, x: Tensor) -> StepRows:
    """Of numbers of fp16, and their mean, of which as many digits are known."""
    rows = StepRows(lowering, x, lowering.near((x.shape[0], 1, 1)))
    assert rows.mean is not None, "made here"
    lowering.reduce(rows.mean, x, (1, 2), final_scale=rows.share)
    return rows
