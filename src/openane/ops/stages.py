"""What functions of single elements are written in: a post stage of the neural engine, or a few operations one by one.

Numbers between operations are fp16; a function's bound (see accuracy) states how far that takes its results.
"""

from __future__ import annotations

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.spec import Stage


def by_table(table: Table, scale: float = 1.0, bias: float = 0.0) -> Stage:
    """table(scale * (x + bias)) as a post stage."""
    return Post(scale=half(scale), bias=half(bias), activation=Activation.TABLE), table


class Stages:
    """Engine operations on tensors of one shape: each call is one and gives a new tensor. The result goes to `target`
    where that is given, else to scratch."""

    def __init__(self, lowering: Lowering, shape: tuple[int, ...]) -> None:
        self.lowering, self.shape = lowering, shape

    def table(self, x: Tensor, table: Table, *, scale: float = 1.0, bias: float = 0.0,
              target: Tensor | None = None) -> Tensor:
        """table(scale * (x + bias)) on the neural engine."""
        made = self._place(target)
        self.lowering.copy(x.expand(self.shape), made, *by_table(table, scale, bias))
        return made

    def planar(self, x: Tensor, y: Tensor | None = None, function: Binary = Binary.ADD, *,
               target: Tensor | None = None, **settings: float | bool) -> Tensor:
        """scale * function(pre_scale * x, y) + bias on the planar engine, and the other settings of Elementwise."""
        made = self._place(target)
        self.lowering.elementwise(made, x, y, function, **settings)
        return made

    def times(self, x: Tensor, y: Tensor, *, target: Tensor | None = None, **settings: float | bool) -> Tensor:
        """scale * x * y + bias."""
        return self.planar(x, y, Binary.MULTIPLY, target=target, **settings)

    def _place(self, target: Tensor | None) -> Tensor:
        return self.lowering.scratch(self.shape) if target is None else target
