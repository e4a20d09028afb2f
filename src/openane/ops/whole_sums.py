"""Convolutions and products whose results are rounded to whole steps: the accumulator counts steps, and 1536 is one of
its terms, so that converting the sum to fp16 rounds it to a whole step.

A sum that is first rounded to fp16 is up to a sixteenth of a step off. Here nothing is rounded on the way: activations
that are whole steps themselves enter as such, and a weight enters as two numbers of fp16 whose sum is what it is in
steps, each times the same activation. What a bias is beside a whole number is the weight of a channel of ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from openane.graph import Graph, Node, TensorType, Value
from openane.ops import step_pairs
from openane.ops.arithmetic import scalar
from openane.ops.averages import average_of
from openane.ops.build import GraphBuilder
from openane.ops.exponents import products
from openane.ops.half_bits import from_half, to_half
from openane.ops.moved import numbers_from
from openane.ops.rewriter import fresh_name
from openane.ops.rounding import EXACT_WHOLE, WHOLE
from openane.ops.step_functions import Surroundings, step_function
from openane.ops.step_layers import counting_form, inner_tap, parts_of_steps
from openane.ops.step_norms import gain_apart, norm_of_steps
from openane.ops.step_pairs import Counted, largest
from openane.ops.step_products import step_product
from openane.ops.step_windows import ODD, window_sums
from openane.ops.weights import constant, numbers
from openane.ops.written_steps import NAME, number, stated_of, two_factors
from openane.record_classes import dataclass

SMALL = 2.0 ** -9
"""A part of a step that sums may be off."""
SAME_STEP = 2.0 ** -22
"""How far from 1 steps of a step may be and mean 1: both are numbers of fp32."""
MATMUL = "matmul"
LONGEST = 8192
"""Of how many products a sum may be that has 1536 among them: longer ones are made in parts, each rounded to fp16."""


def whole_sums(graph: Graph, names: set[str]) -> list[Node]:
    """The graph's nodes with products that count whole steps, where whole steps are what becomes of their results.
    `names` are taken; those of new values are added."""
    if not any(node.op == NAME for node in graph.nodes):
        return list(graph.nodes)
    made = _Sums(graph, names)
    for node in graph.nodes:
        made.take(node)
    return made.nodes


@dataclass(slots=True)
class _Parts:
    """A product's operands in steps: x, and weight [channels, inputs, ...] and bias in float64."""

    x: Value
    weight: np.ndarray
    bias: np.ndarray
    groups: int


@dataclass(slots=True)
class _Sums:
    """Nodes as they are made, and what of them is shared."""

    graph: Graph
    names: set[str]
    nodes: list[Node] = field(default_factory=list)
    whole: dict[tuple[int, float], Value] = field(default_factory=dict)
    wide: dict[tuple[int, int, int, bool], Value] = field(default_factory=dict)
    users: Mapping[int, list[Node]] = field(init=False)
    producers: Mapping[int, Node] = field(init=False)
    outputs: set[int] = field(init=False)
    waiting: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.users, self.producers = self.graph.users(), self.graph.producers()
        self.outputs = {id(value) for value in self.graph.outputs}

    def take(self, node: Node) -> None:
        """Adds the node, or what stands for it."""
        moved = self.waiting.get(id(node))
        if moved is not None:
            self.nodes.append(moved)
            return
        node = norm_of_steps(node, self._known, self._times)
        units = self._steps_alone(node)
        given = None if units is None else self._in_steps(node, units)
        if given is None:
            self.nodes.append(node)
            return
        for user in self.users[id(node.output)]:
            self.waiting[id(user)] = _counted(user, given)

    def _in_steps(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of a node, whose result it takes `units` times; None where they are
        the node's result."""
        form, given = counting_form(node, self.producers), self._averages(node, units)
        if given is not None:
            return given
        if form is not None:
            sums = Value(fresh_name(f"{form.output.name}_sums", self.names), form.output.type)
            self.nodes.append(replace(self._counting(form, units), outputs=(sums,)))
            return Counted({"x": sums})
        return self._mean(node, units) or self._windows(node, units) or self._product(node, units) \
            or step_pairs.pair(node, units, self._known, self._times, max(map(largest, self.users[id(node.output)]))) \
            or self._function(node, units) or self._rounded_behind(node, units)

    def _steps_alone(self, node: Node) -> float | None:
        """Steps per unit of a node's result, where whole steps of one size are all that becomes of it."""
        users = self.users.get(id(node.output), []) if len(node.outputs) == 1 else []
        if not users or id(node.output) in self.outputs:
            return None
        if any(user.op != NAME or "units" not in user.operands or "y" in user.operands for user in users):
            return None
        units = {float(numbers(user["units"])) for user in users}
        return units.pop() if len(units) == 1 else None

    def _mean(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of a sum or mean of steps; None where the node is none."""
        found = average_of(node)
        steps = None if found is None or found.square or found.root else self._known(found.x)
        if found is None or steps is None:
            return None
        name, kept = node.output.name, node.output.type.rank == found.x.type.rank
        return Counted({"x": self._times(found.x, 1), "axes": _integers(f"{name}_axes", list(found.axes)),
                        "keep_dims": Value(f"{name}_keep_dims", TensorType("bool", ()), np.array(kept)),
                        "units": number(f"{name}_units", units * found.factor * stated_of(steps, "scale"))})

    def _rounded_behind(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of the last operation before it, on numbers that are no steps; of a
        norm that is its gain or offset. None where that cannot be."""
        parted = gain_apart(node, fresh_name(f"{node.output.name}_normal", self.names))
        if parted is not None:
            self.nodes.append(parted[0])
            node = parted[1]
        return step_pairs.rounded_behind(node, units) if node.op in ("add", "mul") else None

    def _averages(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of averages in parts of a step (step_layers), of which the planar
        engine takes the even one in the middle between two; None where the node makes none."""
        steps = self._known(node.output, True) if parts_of_steps(node) is not None else None
        if steps is None:
            return None
        return Counted({"x": self._times(node.output, 1),
                        "units": number(f"{node.output.name}_units", _same(units * stated_of(steps, "scale")))})

    def _windows(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of an average pool of steps (step_windows); None where the node is
        none."""
        steps = self._known(node["x"]) if node.op == "avg_pool" else None
        units *= 0.0 if steps is None else stated_of(steps, "scale")
        found = None if steps is None else window_sums(node, self._times(node["x"], 1), largest(steps), self.names)
        if found is None or two_factors(units * found.factor) is None:
            return None
        self.nodes += found.nodes
        operands = {"x": found.sums, "units": number(f"{node.output.name}_units", units * found.factor)}
        if found.shares is not None:
            operands |= {"y": _halves(f"{node.output.name}_shares", found.shares),
                         "function": Value("function", TensorType("string", ()), "mul")}
        return Counted(operands)

    def _product(self, node: Node, units: float) -> Counted | None:
        """The operand of a nearest_steps in place of a product of two tensors of steps (step_products); None where the
        node is none."""
        first, second = (self._known(node[name]) if name in node.operands else None for name in ("x", "y"))
        if node.op != MATMUL or first is None or second is None or min(node["x"].type.rank, node["y"].type.rank) < 2 \
                or products(node) > LONGEST:
            return None
        made = step_product(units * stated_of(first, "scale") * stated_of(second, "scale"), largest(first),
                            largest(second))
        if made is None:
            return None
        x = self._longer(node, "x", made.first, made.whole)
        y = self._longer(node, "y", made.second, (1.0, 1.0))
        name, type_ = f"{node.output.name}_sums", node.output.type
        sums = self._add(MATMUL, name, type_, node, **{**node.operands, "x": x, "y": y})
        scale = _halves(f"{name}_scale", np.full((1,) * type_.rank, made.scale))
        return Counted({"x": self._add("mul", name, type_, node, x=sums, y=scale)})

    def _function(self, node: Node, units: float) -> Counted | None:
        """The operand of a nearest_steps in place of a function of steps (step_functions); None where the node ends
        none."""
        around = Surroundings(self.producers, self.users, self.outputs, self._known)
        found = step_function(node, units, around)
        if found is None:
            return None
        name, builder = f"{node.output.name}_in_steps", GraphBuilder(node.label)
        table = {key: builder.constant(each, f"{name}_{key}") for key, each in found.table.operands.items()}
        made = self._add("lut_activation", name, node.output.type, node, x=self._times(found.x, 1), **table)
        return Counted({"x": made, "units": number(f"{name}_units", 1.0)}, found.middle)

    def _longer(self, node: Node, operand: str, count: float, more: tuple[float, ...]) -> Value:
        """An operand of a product in so many times its steps, with more rows (columns) of numbers to be multiplied."""
        x = node[operand]
        turned = node.get(f"transpose_{operand}")
        axis = x.type.rank - (1 if (operand == "x") != (turned is not None and bool(turned.array())) else 2)
        shape = [extent if place != axis else len(more) for place, extent in enumerate(x.shape)]
        rows = np.broadcast_to(np.reshape(more, [-1 if place == axis else 1 for place in range(len(shape))]), shape)
        values = self._times(x, count), _halves(f"{x.name}_more", rows)
        shape[axis] = x.shape[axis] + len(more)
        return self._add("concat", f"{x.name}_longer", TensorType(x.dtype, tuple(shape)), node, values=values,
                         axis=_integers("axis", axis))

    def _add(self, op: str, name: str, type_: TensorType, source: Node, **operands: Value | tuple[Value, ...]) -> Value:
        made = Value(fresh_name(name, self.names), type_)
        self.nodes.append(Node(op, operands, (made,), made.name, source.source))
        return made

    def _counting(self, node: Node, units: float) -> Node:
        """The product with weights in steps, and WHOLE among what it adds."""
        parts = self._parts(node, units)
        weight, bias = parts.weight, parts.bias
        first = from_half(to_half(weight.astype(np.float32))).astype(np.float64)
        rows = from_half(to_half((WHOLE + bias).astype(np.float32))).astype(np.float64)
        left, rest = weight - first, bias - (rows - WHOLE)
        tap = inner_tap(node, weight) if np.abs(rest).max() > SMALL else None
        pieces = [first, left] if left.any() else [first]
        if tap is not None:
            ones = np.zeros((len(weight), 1, *weight.shape[2:]))
            place: tuple[slice | int, ...] = (slice(None), 0, *tap)
            ones[place] = rest
            pieces.append(ones)
        x = self._widened(node, parts, 1 + bool(left.any()), tap is not None)
        like, name = node["weight"], node.output.name
        operands = {**node.operands, "x": x, "bias": constant(f"{name}_bias", rows, like),
                    "weight": constant(f"{name}_weight", np.concatenate(pieces, 1), like)}
        return replace(node, operands=operands)

    def _parts(self, node: Node, units: float) -> _Parts:
        """Operands of a product; where x is some steps of a size, it becomes their number."""
        x, weight, size = node["x"], numbers(node["weight"]).astype(np.float64), 1.0
        bias = np.zeros(len(weight)) if node.get("bias") is None else numbers(node["bias"]).astype(np.float64) * units
        producer = self._known(x, True)
        if producer is not None and "scale" in producer.operands:
            size = scalar(producer["scale"]) or 1.0
            x = self._times(x, 1)
        groups = node.get("groups")
        return _Parts(x, weight * _same(units * size), bias, 1 if groups is None else int(groups.array()))

    def _known(self, value: Value, averaged: bool = False) -> Node | None:
        """The nearest_steps that makes a value's numbers, as it is by now. They may have been moved since and, where
        asked for, be averages that fp16 holds as they are."""
        producer, parts = self.producers.get(id(value)), 1
        while producer is not None and (before := _read_from(producer, averaged)) is not None:
            parts *= parts_of_steps(producer) or 1
            producer = self.producers.get(id(before))
        if producer is None or producer.op != NAME or (parts > 1 and parts * largest(producer) > ODD * EXACT_WHOLE):
            return None
        return self.waiting.get(id(producer), producer)

    def _times(self, x: Value, count: float) -> Value:
        """Steps of a size as `count` times their number."""
        steps = self._known(x, True)
        assert steps is not None, "asked of steps alone"
        if stated_of(steps, "scale") == count:
            return x
        if (id(x), count) not in self.whole:
            made = Value(fresh_name(f"{x.name}_steps", self.names), x.type)
            movement = self.producers[id(x)]
            before = _read_from(movement, True)
            if before is not None:
                changed, operands = movement, {"x": self._times(before, count)}
            else:
                changed, operands = steps, {"scale": number(f"{made.name}_scale", count)}
            self.nodes.append(replace(changed, operands={**changed.operands, **operands}, outputs=(made,),
                                      name=made.name))
            self.whole[id(x), count] = made
        return self.whole[id(x), count]

    def _widened(self, node: Node, parts: _Parts, times: int, ones: bool) -> Value:
        """The channels of x so many times, and one of ones, in every group."""
        x, groups = parts.x, parts.groups
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
            single = [1 if place == axis else extent for place, extent in enumerate(shape)]
            values = [piece] * times + ([constant(f"{x.name}_ones", np.ones(single), node["weight"])] if ones else [])
            shape[axis] = count
            joined = self._add("concat", f"{x.name}_twice", TensorType(x.dtype, tuple(shape)), node,
                               values=tuple(values), axis=_integers("axis", axis))
            if groups > 1:
                joined = self._reshaped(joined, [x.shape[0], groups * count, *x.shape[2:]], f"{x.name}_wide", node)
            self.wide[key] = joined
        return self.wide[key]

    def _reshaped(self, x: Value, shape: list[int], name: str, node: Node) -> Value:
        return self._add("reshape", name, TensorType(x.dtype, tuple(shape)), node, x=x, shape=_integers("shape", shape))


def _counted(user: Node, given: Counted) -> Node:
    """A nearest_steps of what counts its steps already."""
    rest = {name: user[name] for name in user.operands if name not in ("x", "units")}
    if given.whole:
        rest |= {name: number(name, stated_of(user, name) + sign * given.whole)
                 for name, sign in (("low", -1), ("high", -1), ("zero", 1))}
    return replace(user, operands={**rest, **given.operands})


def _same(steps: float) -> float:
    """Steps of a step, 1 where both are the same."""
    return 1.0 if abs(steps - 1) < SAME_STEP else steps


def _read_from(node: Node, averaged: bool) -> Value | None:
    """What a node moves or, where asked for, averages in parts of a step."""
    return node["x"] if averaged and parts_of_steps(node) is not None else numbers_from(node)


def _halves(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType("fp16", array.shape), to_half(np.asarray(array, np.float32)))


def _integers(name: str, data: int | list[int]) -> Value:
    array = np.array(data, np.int32)
    return Value(name, TensorType("int32", array.shape), array)
