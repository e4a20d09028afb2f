"""The neural engine's last stage: bias and scale on the unrounded accumulator, then ReLU or a table.

Order: accumulator + bias row, infinite from 2^15 on where there is more than one product (a pointwise convolution of
one channel is known to pass 60000), + bias, * scale, activation. ReLU stands after the conversion to fp16 in the
hardware; before it, it gives the same bits.
"""

from __future__ import annotations

import numpy as np

from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.errors import SimulationError
from openane.record_classes import dataclass
from openane.simulator.lookup_table import evaluate


@dataclass(frozen=True, slots=True)
class PostStage:
    """A post stage with its table, ready to be applied."""

    post: Post
    table: Table | None = None

    @staticmethod
    def of(post: Post, table: Table | None, what: str) -> PostStage:
        """SimulationError when the activation is a table and there is none."""
        if post.activation is Activation.TABLE and table is None:
            raise SimulationError(f"{what}: the activation is a table, but the operation has no coefficients with one")
        return PostStage(post, table)

    @property
    def identity(self) -> bool:
        """Whether it changes nothing."""
        return self.post == Post()

    def apply(self, values: np.ndarray) -> np.ndarray:
        """The stage on float32 or float64 values; may overwrite them."""
        post = self.post
        if post.bias != 0:
            np.add(values, values.dtype.type(post.bias), out=values)
        if post.scale != 1:
            np.multiply(values, values.dtype.type(post.scale), out=values)
        if post.activation is Activation.RELU:
            np.maximum(values, 0, out=values)
        if post.activation is Activation.TABLE:
            assert self.table is not None
            values[np.isnan(values)] = 0
            return evaluate(self.table, values)
        return values
