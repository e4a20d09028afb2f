"""The order in which tensors are given addresses in L2.

Addresses decide nothing but whether tensors fit; this is the order that agrees with most of Apple's programs (chains of
products, softmax, layer norm, reductions over any axis): small statistics that are broadcast first, then the largest
tensor first, those only the planar engine writes before others of their size (on H18 the one made first), and sources
kept for a later reader above everything else. A tensor stays one operation longer where the next one runs on the other
engine, as the two overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openane.chips import Limits
from openane.compiler.buffers.intervals import Interval, allocate
from openane.engine import NeuralOperation, Operation, sources
from openane.engine.changing import with_fields
from openane.record_classes import dataclass


@dataclass(slots=True)
class _Role:
    """What a tensor is to the operations that name it."""

    broadcast: bool = False
    neural: bool = False
    kept: bool = False


def allocate_l2(requests: Sequence[Interval], operations: Sequence[Operation],
                limits: Limits) -> tuple[dict[int, int], int]:
    """Offsets of tensors in L2 and the bytes used; more than L2 has only where no order fits."""
    roles = _roles(operations)
    neural = [isinstance(operation, NeuralOperation) for operation in operations]
    ordered = [_ordered(request, roles.get(request.key, _Role()), neural, limits) for request in requests]
    offsets, peak = allocate(ordered, limits.l2_alignment)
    if peak > limits.l2_size:
        offsets, peak = allocate([replace(request, above=False) for request in ordered], limits.l2_alignment)
    return offsets, peak


def _ordered(request: Interval, role: _Role, neural: Sequence[bool], limits: Limits) -> Interval:
    following = request.last + 1
    overlaps = following < len(neural) and neural[following] != neural[request.last]
    turn = 2 if role.kept else 0 if role.broadcast and request.size <= limits.statistic else 1
    return with_fields(request, {"last": request.last + overlaps, "above": role.kept,
                             "turn": (turn, -request.size, int(limits.planar_first and role.neural))})


def _roles(operations: Sequence[Operation]) -> dict[int, _Role]:
    roles: dict[int, _Role] = {}
    for operation in operations:
        for source in sources(operation):
            role = roles.setdefault(source.slot, _Role())
            role.broadcast |= source.repeats
            if source.copy is not None:
                roles.setdefault(source.copy.slot, _Role()).kept = True
        for written in (operation.result, operation.result.copy):
            if written is not None:
                roles.setdefault(written.slot, _Role()).neural |= isinstance(operation, NeuralOperation)
    return roles
