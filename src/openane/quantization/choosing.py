"""Which layer takes which form, so that the model's outputs stay within an error and its file becomes small.

Greedy: every layer has steps, from what it is to ever smaller forms, each with what it adds to the squared error of the
layer's results for every byte it saves. Steps are taken in the order of that, as many as keep the error of the model's
outputs, which is measured, below the limit. The step that breaks it is left out with those behind it in its layer, and
the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openane.quantization.forms import StoredWeight
from openane.quantization.layers import Layer

SEARCHES = 3
"""How often steps that would break the limit are left out. Each search runs the model a few times."""

Chosen = Mapping[int, StoredWeight]
"""What layers take, by their number."""
ErrorOf = Callable[[Chosen], float]


@dataclass(frozen=True, slots=True)
class Step:
    """The layer of a number takes a form: `cost` is squared error per byte."""

    layer: int
    stored: StoredWeight
    cost: float


def steps_of(number: int, layer: Layer, candidates: Sequence[StoredWeight], errors: Mapping[str, float]) -> list[Step]:
    """The steps of a layer in their order: each the cheapest from the one before, at a cost no lower than that one's.
    `errors` are those of its results by form."""
    steps: list[Step] = []
    size, error = layer.size, 0.0
    while smaller := [each for each in candidates if each.size < size]:
        costs = [max(errors[each.form] ** 2 - error, 0.0) / (size - each.size) for each in smaller]
        cost, _, place = min((cost, each.size, place) for place, (cost, each) in
                             enumerate(zip(costs, smaller, strict=True)))
        stored = smaller[place]
        steps.append(Step(number, stored, max(cost, steps[-1].cost if steps else 0.0)))
        size, error = stored.size, errors[stored.form] ** 2
    return steps


def choose(steps: Sequence[Step], error_of: ErrorOf, limit: float) -> dict[int, StoredWeight]:
    """The forms of layers: the error of those chosen, as `error_of` measures it, is at most `limit`. `steps` of one
    layer are in their order; layers that stay as they are have no entry."""
    chosen: dict[int, StoredWeight] = {}
    left = sorted(steps, key=lambda step: step.cost)
    for _ in range(SEARCHES):
        count = _most(chosen, left, error_of, limit)
        chosen = _after(chosen, left[:count])
        if count == len(left):
            break
        left = [step for step in left[count:] if step.layer != left[count].layer]
    return chosen


def _most(chosen: Chosen, steps: Sequence[Step], error_of: ErrorOf, limit: float) -> int:
    """How many of the first steps keep the error within the limit: all, or by halving."""
    low, high = 0, len(steps) + 1
    count = len(steps)
    while low + 1 < high:
        if error_of(_after(chosen, steps[:count])) <= limit:
            low = count
        else:
            high = count
        count = (low + high) // 2
    return low


def _after(chosen: Chosen, steps: Sequence[Step]) -> dict[int, StoredWeight]:
    return {**chosen, **{step.layer: step.stored for step in steps}}
