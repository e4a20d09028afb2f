"""Convolutions and products whose results are rounded to whole steps: the accumulator counts steps, and 1536 is one of
its terms, so that converting the sum to fp16 rounds it to a whole step.

A sum that is first rounded to fp16 is up to a sixteenth of a step off. Here nothing is rounded on the way: activations
that are whole steps themselves enter as such, and a weight enters as two numbers of fp16 whose sum is what it is in
steps, each times the same activation. What a bias is beside a whole number is the weight of a channel of ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, TensorType, Value
from openane.ops import step_pairs
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.averages import average_of
from openane.ops.build import GraphBuilder
from openane.ops.exponents import products
from openane.ops.rewriter import fresh_name
from openane.ops.step_functions import Surroundings, step_function
from openane.ops.step_layers import counting_form, inner_tap, parts_of_steps
from openane.ops.step_norms import gain_apart, norm_of_steps, step_norm
from openane.ops.step_operands import StepOperands, halves, integers
from openane.ops.step_pairs import Counted, largest, steps_between
from openane.ops.step_products import step_product
from openane.ops.step_spreads import step_quotient, step_spread
from openane.ops.step_ties import numbers_of, product_units
from openane.ops.step_weights import step_weights
from openane.ops.step_windows import window_sums
from openane.ops.weights import constant, numbers
from openane.ops.written_steps import NAME, number, stated_of, two_factors
from openane.record_classes import dataclass

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
    sums = _Sums(graph, names)
    for node in graph.nodes:
        sums.take(node)
    return sums.made.nodes


@dataclass(slots=True)
class _Parts:
    """A product's operands in steps: x and what it lies between, if known, and weight [channels, inputs, ...] and bias
    in float64."""

    x: Value
    weight: np.ndarray
    bias: np.ndarray
    groups: int
    bounds: tuple[float, float] | None


class _Sums:
    """Nodes of a graph as they are made: `made`, with what of them is shared."""

    def __init__(self, graph: Graph, names: set[str]) -> None:
        self.users, self.outputs = graph.users(), {id(value) for value in graph.outputs}
        self.made = StepOperands(graph.producers(), names)
        self._close = graph.metadata.get(FUNCTIONS) == CLOSE

    def take(self, node: Node) -> None:
        """Adds the node, or what stands for it."""
        moved = self.made.waiting.get(id(node))
        if moved is not None:
            self.made.nodes.append(moved)
            return
        if node.op == NAME:
            self.made.waiting[id(node)] = self._of_steps(node)
            self.made.nodes.append(self.made.waiting[id(node)])
            return
        units = self._steps_alone(node)
        given = None if units is None else self._norm(node, units)
        if given is None:
            node = norm_of_steps(node, self.made.known, self.made.times)
            given = None if units is None else self._in_steps(node, units)
        if given is None:
            self.made.nodes.append(node)
            return
        for user in self.users[id(node.output)]:
            self.made.waiting[id(user)] = _counted(user, given)

    def _of_steps(self, node: Node) -> Node:
        """A nearest_steps that counts the steps it reads, where what it reads are some of another size; others as they
        are."""
        if "units" not in node.operands or "y" in node.operands or "axes" in node.operands:
            return node
        steps = self.made.known(node["x"])
        units = 0.0 if steps is None else _same(float(numbers(node["units"])) * stated_of(steps, "scale"))
        if steps is None or two_factors(units) is None:
            return node
        units = product_units(units, numbers_of(steps), np.ones(1))
        return replace(node, operands={**node.operands, "x": self.made.times(node["x"], 1),
                                       "units": number(f"{node.output.name}_units", units)})

    def _in_steps(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of a node, whose result it takes `units` times; None where they are
        the node's result."""
        form, given = counting_form(node, self.made.producers), self._averages(node, units)
        if given is not None:
            return given
        if form is not None:
            return self._counting(form, units, self.users[id(node.output)])
        return self._mean(node, units) or self._windows(node, units) or self._product(node, units) \
            or self._pair(node, units) or self._function(node, units) or self._rounded_behind(node, units)

    def _pair(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of a sum or product of two tensors of steps (step_pairs)."""
        reach = max(map(largest, self.users[id(node.output)]))
        return step_pairs.pair(node, units, self.made.known, self.made.times, reach, self.made.add)

    def _norm(self, node: Node, units: float) -> Counted | None:
        """The operand of a nearest_steps in place of a norm of steps (step_norms) or a part of one (step_spreads); None
        where the node ends none, or functions need not be close: such a norm takes twice the time and more."""
        found = None if not self._close else step_norm(node, units, self.made) or step_spread(node, units, self.made) \
            or step_quotient(node, units, self.made)
        if found is None:
            return None
        self.made.nodes += found.nodes
        return Counted({"x": found.sums})

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
        steps = None if found is None or found.square or found.root else self.made.known(found.x)
        if found is None or steps is None:
            return None
        name, kept = node.output.name, node.output.type.rank == found.x.type.rank
        return Counted({"x": self.made.times(found.x, 1), "axes": integers(f"{name}_axes", list(found.axes)),
                        "keep_dims": Value(f"{name}_keep_dims", TensorType("bool", ()), np.array(kept)),
                        "units": number(f"{name}_units", units * found.factor * stated_of(steps, "scale"))})

    def _rounded_behind(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of the last operation before it, on numbers that are no steps; of a
        norm that is its gain or offset. None where that cannot be."""
        parted = gain_apart(node, fresh_name(f"{node.output.name}_normal", self.made.names))
        if parted is not None:
            self.made.nodes.append(parted[0])
            node = parted[1]
        return step_pairs.rounded_behind(node, units) if node.op in ("add", "mul") else None

    def _averages(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of averages in parts of a step (step_layers), of which the planar
        engine takes the even one in the middle between two; None where the node makes none."""
        steps = self.made.known(node.output, True) if parts_of_steps(node) is not None else None
        if steps is None:
            return None
        return Counted({"x": self.made.times(node.output, 1),
                        "units": number(f"{node.output.name}_units", _same(units * stated_of(steps, "scale")))})

    def _windows(self, node: Node, units: float) -> Counted | None:
        """The operands of a nearest_steps in place of an average pool of steps (step_windows); None where the node is
        none."""
        steps = self.made.known(node["x"]) if node.op == "avg_pool" else None
        units *= 0.0 if steps is None else stated_of(steps, "scale")
        found = None if steps is None else \
            window_sums(node, self.made.times(node["x"], 1), largest(steps), self.made.names)
        if found is None or two_factors(units * found.factor) is None:
            return None
        self.made.nodes += found.nodes
        operands = {"x": found.sums, "units": number(f"{node.output.name}_units", units * found.factor)}
        if found.shares is not None:
            operands |= {"y": halves(f"{node.output.name}_shares", found.shares),
                         "function": Value("function", TensorType("string", ()), "mul")}
        return Counted(operands)

    def _product(self, node: Node, units: float) -> Counted | None:
        """The operand of a nearest_steps in place of a product of two tensors of steps (step_products); None where the
        node is none."""
        first, second = (self.made.known(node[name]) if name in node.operands else None for name in ("x", "y"))
        if node.op != MATMUL or first is None or second is None or min(node["x"].type.rank, node["y"].type.rank) < 2 \
                or products(node) > LONGEST:
            return None
        most = max(map(largest, self.users[id(node.output)]))
        made = step_product(units * stated_of(first, "scale") * stated_of(second, "scale"), largest(first),
                            largest(second), most)
        if made is None:
            return None
        x = self.made.longer(node, "x", (made.first,) * len(made.second), made.whole)
        y = self.made.longer(node, "y", made.second, (1.0,) * len(made.whole))
        name, type_ = f"{node.output.name}_sums", node.output.type
        sums = self.made.add(MATMUL, name, type_, node, **{**node.operands, "x": x, "y": y})
        scale = halves(f"{name}_scale", np.full((1,) * type_.rank, made.scale))
        return Counted({"x": self.made.add("mul", name, type_, node, x=sums, y=scale)})

    def _function(self, node: Node, units: float) -> Counted | None:
        """The operand of a nearest_steps in place of a function of steps (step_functions); None where the node ends
        none."""
        around = Surroundings(self.made.producers, self.users, self.outputs, self.made.known)
        found = step_function(node, units, around)
        if found is None:
            return None
        name, builder = f"{node.output.name}_in_steps", GraphBuilder(node.label)
        made = []
        for each in found.tables:
            table = {key: builder.constant(data, f"{name}_{key}") for key, data in each.operands.items()}
            made.append(self.made.add("lut_activation", name, node.output.type, node, x=self.made.times(found.x, 1),
                                      **table))
        return Counted({**dict(zip("xy", made, strict=False)), "units": number(f"{name}_units", 1.0)}, found.middle)

    def _counting(self, node: Node, units: float, users: Sequence[Node]) -> Counted:
        """The operands of nearest_steps in place of a layer: its sums, with weights in steps and WHOLE among what is
        added."""
        name, parts = node.output.name, self._parts(node, units)
        scale = min(abs(stated_of(user, "scale")) for user in users)
        made = step_weights(parts.weight, parts.bias, parts.bounds, scale)
        tap, pieces = inner_tap(node, parts.weight) if made.rest else None, list(made.pieces)
        for rest in made.rest if tap is not None else ():
            ones = np.zeros((len(rest), 1, *parts.weight.shape[2:]))
            place: tuple[slice | int, ...] = (slice(None), 0, *(tap or ()))
            ones[place] = rest
            pieces.append(ones)
        x = self.made.widened(node, parts.x, parts.groups, len(made.pieces), len(pieces) - len(made.pieces))
        like, sums = node["weight"], Value(fresh_name(f"{name}_sums", self.made.names), node.output.type)
        operands = {**node.operands, "x": x, "bias": constant(f"{name}_bias", made.rows, like),
                    "weight": constant(f"{name}_weight", np.concatenate(pieces, 1), like)}
        self.made.nodes.append(replace(node, operands=operands, outputs=(sums,)))
        return Counted({"x": sums, **({} if made.parts == 1 else {"parts": number(f"{name}_parts", made.parts)})})

    def _parts(self, node: Node, units: float) -> _Parts:
        """Operands of a product; where x is some steps of a size, it becomes their number."""
        x, weight, size, bounds = node["x"], numbers(node["weight"]).astype(np.float64), 1.0, None
        bias = np.zeros(len(weight)) if node.get("bias") is None else numbers(node["bias"]).astype(np.float64) * units
        producer = self.made.known(x, True)
        if producer is not None:
            size = stated_of(producer, "scale") or 1.0
            x, bounds = self.made.times(x, 1), steps_between(producer)
        groups = node.get("groups")
        return _Parts(x, weight * _same(units * size), bias, 1 if groups is None else int(groups.array()), bounds)

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
