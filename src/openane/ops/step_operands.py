"""Tensors of whole steps as operands of what counts them: their steps in number, and side by side with themselves or
with ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.half_bits import to_half
from openane.ops.moved import numbers_from
from openane.ops.rewriter import fresh_name
from openane.ops.rounding import EXACT_WHOLE
from openane.ops.step_layers import parts_of_steps
from openane.ops.step_pairs import largest
from openane.ops.step_windows import ODD
from openane.ops.weights import constant
from openane.ops.written_steps import NAME, number, stated_of
from openane.record_classes import dataclass


@dataclass(slots=True)
class StepOperands:
    """Nodes as they are made, and what of them is shared. `producers` make the values of the graph as it was, by id;
    `waiting` are nodes that take the place of others, by those' ids."""

    producers: Mapping[int, Node]
    names: set[str]
    nodes: list[Node] = field(default_factory=list)
    waiting: dict[int, Node] = field(default_factory=dict)
    whole: dict[tuple[int, float], Value] = field(default_factory=dict)
    wide: dict[tuple[int, int, int, int], Value] = field(default_factory=dict)

    def known(self, value: Value, averaged: bool = False) -> Node | None:
        """The nearest_steps that makes a value's numbers, as it is by now. They may have been moved since and, where
        asked for, be averages that fp16 holds as they are."""
        producer, parts = self.producers.get(id(value)), 1
        while producer is not None and (before := _read_from(producer, averaged)) is not None:
            parts *= parts_of_steps(producer) or 1
            producer = self.producers.get(id(before))
        if producer is None or producer.op != NAME or (parts > 1 and parts * largest(producer) > ODD * EXACT_WHOLE):
            return None
        return self.waiting.get(id(producer), producer)

    def given(self, value: Value) -> bool:
        """Whether a value's numbers are those of an input, which may have been moved since."""
        producer = self.producers.get(id(value))
        while producer is not None and (before := numbers_from(producer)) is not None:
            producer = self.producers.get(id(before))
        return producer is None and not value.constant

    def times(self, x: Value, count: float) -> Value:
        """Steps of a size as `count` times their number."""
        steps = self.known(x, True)
        assert steps is not None, "asked of steps alone"
        if stated_of(steps, "scale") == count:
            return x
        if (id(x), count) not in self.whole:
            made = Value(fresh_name(f"{x.name}_steps", self.names), x.type)
            movement = self.producers[id(x)]
            before = _read_from(movement, True)
            if before is not None:
                changed, operands = movement, {"x": self.times(before, count)}
            else:
                changed, operands = steps, {"scale": number(f"{made.name}_scale", count)}
            self.nodes.append(replace(changed, operands={**changed.operands, **operands}, outputs=(made,),
                                      name=made.name))
            self.whole[id(x), count] = made
        return self.whole[id(x), count]

    def longer(self, node: Node, operand: str, counts: tuple[float, ...], more: tuple[float, ...]) -> Value:
        """An operand of a product in so many times its steps, for each of the counts one behind the other, with more
        rows (columns) of numbers to be multiplied."""
        x = node[operand]
        turned = node.get(f"transpose_{operand}")
        axis = x.type.rank - (1 if (operand == "x") != (turned is not None and bool(turned.array())) else 2)
        shape = [extent if place != axis else len(more) for place, extent in enumerate(x.shape)]
        rows = np.broadcast_to(np.reshape(more, [-1 if place == axis else 1 for place in range(len(shape))]), shape)
        values = *(self.times(x, count) for count in counts), halves(f"{x.name}_more", rows)
        shape[axis] = x.shape[axis] * len(counts) + len(more)
        return self.add("concat", f"{x.name}_longer", TensorType(x.dtype, tuple(shape)), node, values=values,
                         axis=integers("axis", axis))

    def widened(self, node: Node, x: Value, groups: int, times: int, ones: int) -> Value:
        """The channels of a layer's x so many times, and some of ones, in every group."""
        if times == 1 and not ones:
            return x
        key = id(x), groups, times, ones
        if key not in self.wide:
            axis = x.type.rank - 1 if node.op == "linear" else 1
            shape = list(x.shape)
            channels = shape[axis] // groups
            count = channels * times + ones
            if groups > 1:
                shape = [shape[0], groups, channels, shape[2], *([math.prod(shape[3:])] if len(shape) > 3 else [])]
                axis += 1
            piece = x if groups == 1 else self._reshaped(x, shape, f"{x.name}_groups", node)
            single = [ones if place == axis else extent for place, extent in enumerate(shape)]
            values = [piece] * times + ([constant(f"{x.name}_ones", np.ones(single), node["weight"])] if ones else [])
            shape[axis] = count
            joined = self.add("concat", f"{x.name}_twice", TensorType(x.dtype, tuple(shape)), node,
                               values=tuple(values), axis=integers("axis", axis))
            if groups > 1:
                joined = self._reshaped(joined, [x.shape[0], groups * count, *x.shape[2:]], f"{x.name}_wide", node)
            self.wide[key] = joined
        return self.wide[key]

    def add(self, op: str, name: str, type_: TensorType, source: Node, **operands: Value | tuple[Value, ...]) -> Value:
        """A node in front of another one, whose source it has: its result."""
        made = Value(fresh_name(name, self.names), type_)
        self.nodes.append(Node(op, operands, (made,), made.name, source.source))
        return made

    def _reshaped(self, x: Value, shape: list[int], name: str, node: Node) -> Value:
        return self.add("reshape", name, TensorType(x.dtype, tuple(shape)), node, x=x, shape=integers("shape", shape))


def _read_from(node: Node, averaged: bool) -> Value | None:
    """What a node moves or, where asked for, averages in parts of a step."""
    return node["x"] if averaged and parts_of_steps(node) is not None else numbers_from(node)


def halves(name: str, array: np.ndarray) -> Value:
    """A constant in fp16."""
    return Value(name, TensorType("fp16", array.shape), to_half(np.asarray(array, np.float32)))


def integers(name: str, data: int | list[int]) -> Value:
    """A constant of integers, one or a vector."""
    array = np.array(data, np.int32)
    return Value(name, TensorType("int32", array.shape), array)
