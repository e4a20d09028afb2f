"""A graph computed beside what ran, one operation after the other, in double precision.

`wide` is computed from the inputs as they are given, `near` from what the engine itself held before the operation and
those that share its task: what differs between `near` and what the engine `made` is the error that is added here, what
differs between `near` and `wide` the one that is inherited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openane.checking.numbers import Array, peak, relative, usual
from openane.checking.watched import Kept
from openane.chips import get_chip
from openane.compiler.inspect.intermediates import Intermediates
from openane.engine import Convolution, MatrixProduct
from openane.graph import Node, Value, as_stated, numpy_type
from openane.ops import all_ops
from openane.ops.evaluate import evaluate_node
from openane.ops.halves import SMALLEST_NORMAL
from openane.ops.rounding import WHOLE
from openane.ops.step_values import beside_zero, counted, rounds

MOST = 16
"""Operations that are looked at as made together with another."""


@dataclass(frozen=True, slots=True)
class Link:
    """An operation of a task: its largest magnitude, the root mean square, and the error it inherits, all of what it
    computes from what the engine held; `factors` has the root mean squares of the operands it multiplies."""

    node: Node
    peak: float
    size: float
    inherited: float
    factors: tuple[float, ...]

    @property
    def product(self) -> float | None:
        """The usual size of a product of an operation that sums them; None for others."""
        op = all_ops().get(self.node.op)
        return self.factors[0] * self.factors[1] if op and op.sums_products and len(self.factors) == 2 else None


@dataclass(frozen=True, slots=True)
class Seen:
    """A result of an operation. `made` is None where no task stores it; `links` are the operations before it since the
    last stored tensors, and `arrays` what the engine held of tensors, by id of the value. `before` is the largest error
    of the stored tensors that it is computed from, infinite where they hold infinities. Where whole steps are counted
    each is so many numbers as `counted` says, 0 elsewhere. `offset` is what was added to every number: WHOLE steps, or
    the point of a quantisation that stands for 0."""

    node: Node
    value: Value
    wide: Array
    near: Array
    made: Array | None
    links: tuple[Link, ...]
    hosted: bool
    before: float
    arrays: Mapping[int, Array]
    offset: float = 0.0
    counted: float = 0.0

    @property
    def inherited(self) -> float:
        """The error of what this computes from the engine's own inputs."""
        return relative(self.near, self.wide, self.offset)

    @property
    def added(self) -> float:
        """The error that is made here, none where nothing is stored."""
        return 0.0 if self.made is None else relative(self.made, self.near, self.offset)

    @property
    def error(self) -> float:
        """The error of what is stored, or of what it would be."""
        return relative(self.near if self.made is None else self.made, self.wide, self.offset)

    @property
    def usual(self) -> float:
        """The usual size of what the numbers say in fp32."""
        return usual(self.wide - self.offset) if self.offset else usual(self.wide)

    def steps_of(self, array: Array) -> Array:
        """Numbers of the result, in steps where these are counted."""
        return (array - self.offset) / self.counted if self.counted else array

    @property
    def chain(self) -> tuple[Link, ...]:
        """The operations of the task up to this one."""
        return (*self.links, Link(self.node, peak(self.near), usual(self.near), self.inherited, self._factors()))

    def _factors(self) -> tuple[float, ...]:
        pair = [self.node.get("x"), self.node.get("weight") or self.node.get("y")]
        known = [value.array() if value.constant else self.arrays.get(id(value)) for value in pair if value is not None]
        return tuple(usual(array) for array in known if array is not None)


def computed_beside(known: Intermediates, kept: Sequence[Kept], inputs: Mapping[str, Array]) -> Iterator[Seen]:
    """Every result of every operation, in order. Inputs that are not given are zeros."""
    state = _Beside(known, kept, inputs)
    last = {id(value): number for number, node in enumerate(known.graph.nodes) for value in node.values()}
    with np.errstate(all="ignore"):
        for number, node in enumerate(known.graph.nodes):
            yield from state.step(node)
            for value in node.values():
                if last[id(value)] == number:
                    state.forget(value)


class _Beside:
    """What is known of values so far, by id of the value."""

    def __init__(self, known: Intermediates, kept: Sequence[Kept], inputs: Mapping[str, Array]) -> None:
        self._hosted, self._kept = known.hosted, kept
        self._counted, self._offsets = counted(known.graph), dict[int, float]()
        self._digits = any(map(rounds, known.graph.nodes))
        self._wide: dict[int, Array] = {}
        self._found: dict[int, Array] = {}
        self._errors: dict[int, float] = {}
        self._inside: dict[int, tuple[Link, ...]] = {}
        for value in known.graph.inputs:
            given = inputs.get(value.name)
            array = wide(np.zeros(value.shape, numpy_type(value.dtype)) if given is None else given)
            self._wide[id(value)] = array
            with np.errstate(over="ignore"):
                held = array.astype(np.float16).astype(np.float64) if array.dtype.kind == "f" else array
            self._found[id(value)], self._errors[id(value)] = held, relative(held, array)

    def step(self, node: Node) -> Iterator[Seen]:
        """The results of the next operation."""
        stated = as_stated(node) if self._digits else node
        wanted, expected = (tuple(map(wide, evaluate_node(stated, values))) for values in (self._wide, self._found))
        links, hosted = self._links(node), id(node) in self._hosted
        before = max((self._errors.get(id(value), 0.0) for value in node.values()), default=0.0)
        for value, array, near in zip(node.outputs, wanted, expected, strict=True):
            seen = self._seen(node, value, array, near, links, hosted, before)
            array, near, made = seen.wide, seen.near, seen.made
            yield seen
            if made is None and not hosted:
                self._inside[id(value)] = seen.chain
            if made is None:
                self._errors[id(value)] = seen.inherited if hosted else before
            else:
                self._errors[id(value)] = seen.error
            self._wide[id(value)], self._found[id(value)] = array, near if made is None else made

    def _seen(self, node: Node, value: Value, array: Array, near: Array, links: tuple[Link, ...], hosted: bool,
              before: float) -> Seen:
        """A result; what counts steps is rounded to them, as it is by being stored."""
        parts = self._counted.get(id(value))
        self._offsets[id(value)] = beside_zero(node, self._offsets) if parts is None else WHOLE * parts
        made = next((tensor for each in self._kept if (tensor := each.tensor(value)) is not None), None)
        array, near = (each if parts is None else np.rint(each / parts) * parts for each in (array, near))
        return Seen(node, value, array, near, made, links, hosted, before, self._found, self._offsets[id(value)],
                    parts or 0.0)

    def forget(self, value: Value) -> None:
        """What no later operation reads."""
        for table in (self._wide, self._found, self._inside, self._errors):
            table.pop(id(value), None)

    def _links(self, node: Node) -> tuple[Link, ...]:
        """The operations made together with the one that is asked about, in order, each once."""
        found = {id(each.node): each for value in node.values() for each in self._inside.get(id(value), ())}
        return tuple(found.values())[-MOST:]


def first_small(chain: tuple[Link, ...]) -> Link:
    """Of the operations of a task whose result is too small for fp16 the first from which on all are."""
    found = chain[-1]
    for link in reversed(chain):
        if not 0 < link.size < SMALLEST_NORMAL:
            break
        found = link
    return found


def multiplied(kept: Sequence[Kept], nodes: Sequence[Node]) -> bool:
    """Whether the first task of some nodes that stored infinities multiplies and accumulates."""
    for each in kept:
        tasks = {task for node in nodes for task in each.places.tasks.get(id(node), ())}
        for task in sorted(tasks & each.infinite):
            program = each.places.program
            operation = get_chip(program.chip).operation(program.tasks[task].words)
            return isinstance(operation, Convolution | MatrixProduct)
    return False


def wide(array: Array) -> Array:
    """An array in double precision; integers and booleans stay what they are."""
    return np.asarray(array, np.float64) if array.dtype.kind == "f" else np.asarray(array)
