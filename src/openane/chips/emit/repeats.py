"""Tells which tasks have equal fields but for addresses, so that they are encoded once.

Two tasks of equal keys have the same fields, apart from base addresses and links. The parts of a product, the heads of
an attention and the layers of a transformer repeat a few tasks with other operands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import lru_cache
from math import copysign
from operator import attrgetter
from typing import Any

from openane.chips.emit.flow import Flow
from openane.chips.emit.patches import Patch
from openane.chips.emit.rings import TilePlan
from openane.engine import Access, Coefficients, NeuralOperation, Operation

_WALK = attrgetter("space", "slot", "shape", "strides", "dtype", "interleave", "packed")
_STATED = attrgetter("lanes", "packing", "palette_bits", "runtime")
_SCHEDULED = attrgetter("begins", "ends", "result_stated", "source_stated", "planar_before", "planar_after", "surface",
                        "read_again", "read_earlier")
OPERANDS = ("source", "first", "second", "result", "coefficients")


def forms(operations: Sequence[Operation]) -> list[int]:
    """A number for each operation, equal for those alike but for where their operands lie."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(_form(operation), len(known)) for operation in operations]


def task_key(form: int, plan: TilePlan, followed: Patch | None, flow: Flow) -> Hashable:
    """What the fields of a task whose operation has number `form` follow from, base addresses, its place in the program
    and its hazards apart."""
    return (form, plan.tile_height, plan.patch, tuple(plan.rings.items()), followed, _SCHEDULED(flow),
            tuple(flow.strides.items()))


def _form(operation: Operation) -> Hashable:
    """An operation without the places of its operands."""
    settings, numbers = _getters(type(operation))  # type: ignore[arg-type]
    values = numbers(operation)
    if isinstance(operation, NeuralOperation):
        operands = _walk(operation.source), _walk(operation.result), _streams(operation.coefficients)
    else:
        operands = _walk(operation.first), _walk(operation.result), _walk(operation.second)
    return type(operation), operands, settings(operation), values, _signs(values)


def signs(operation: Operation) -> tuple[float, ...]:
    """The signs of the real numbers an operation states: two are equal still where one has 0.0 and the other -0.0."""
    return _signs(_getters(type(operation))[1](operation))  # type: ignore[arg-type]


def _signs(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple([copysign(1.0, value) for value in values])


def _walk(access: Access | None) -> Hashable:
    return None if access is None else (_WALK(access), None if access.copy is None else _walk(access.copy))


def _streams(coefficients: Coefficients | None) -> Hashable:
    if coefficients is None:
        return None
    parts = (coefficients.weights, coefficients.bias, coefficients.table)
    return _STATED(coefficients), tuple([None if part is None else (part.slot, part.streams.parts) for part in parts])


@lru_cache(maxsize=32)
def _getters(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any], tuple[float, ...]]]:
    """Readers of what an operation states beside its operands: of everything but real numbers, and of these."""
    stated = [(field.name, field) for field in fields(kind) if field.name not in (*OPERANDS, "post")]
    if issubclass(kind, NeuralOperation):
        post: Any = next(field.default for field in fields(kind) if field.name == "post")
        stated += [(f"post.{field.name}", field) for field in fields(post)]
    return (attrgetter(*(name for name, field in stated if field.type != "float")),
            attrgetter(*(name for name, field in stated if field.type == "float")))
