"""How many weights an operation has, before anything is said about where they lie."""

from __future__ import annotations

from math import prod

from openane.engine.operations import Convolution, MatrixProduct, NeuralOperation, Operation
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Geometry:
    """Groups with weights of their own, result channels of each, weights per channel. `single`: every channel has
    inputs of its own (a depthwise convolution), and all channels count as one group with one lane."""

    groups: int
    channels: int
    rows: int
    single: bool = False

    def __str__(self) -> str:
        return f"{self.groups} x {self.channels} x {self.rows} weights"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the weights: groups, channels, rows."""
        return self.groups, self.channels, self.rows

    @property
    def weights(self) -> int:
        """Number of weights."""
        return self.groups * self.channels * self.rows


def multiplications(operation: Operation) -> int:
    """Products of an operation that multiplies and accumulates; 0 for the others."""
    if isinstance(operation, MatrixProduct):
        return operation.result.elements * operation.source.shape[1]
    if isinstance(operation, Convolution):
        return operation.result.elements * (operation.unicast or operation.source.shape[1]) * prod(operation.kernel)
    return 0


def geometry_of(operation: Operation | NeuralOperation | None) -> Geometry | None:
    """How an operation's weights are arranged; None for operations without weights."""
    if isinstance(operation, MatrixProduct):
        return Geometry(operation.result.shape[0] if operation.grouped else 1, operation.result.shape[1],
                        operation.source.shape[1])
    if not isinstance(operation, Convolution):
        return None
    groups = 1 if operation.shared else operation.result.shape[0]
    inputs = operation.unicast or operation.source.shape[1]
    return Geometry(groups, operation.result.shape[1], inputs * prod(operation.kernel), operation.unicast > 0)
