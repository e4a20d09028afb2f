"""Numbers that the engine would not hold, or sum badly, made larger or smaller by exact powers of two.

Where an operation is indifferent to exponents its result has that of its operands; where it has constant weights these
take up the difference, at no cost; elsewhere one multiplication does. Outputs are as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.graph import Graph, Node, Operand, TensorType, Value
from openane.graph.states import MARK
from openane.ops import get_op
from openane.ops.build import GraphBuilder
from openane.ops.exponents import Exponents, Relation, exponents
from openane.ops.unary import settings
from openane.passes.dead_code import remove_dead_code
from openane.passes.fold_affine import fold_affine
from openane.passes.fold_constants import fold_constants
from openane.passes.fold_shapes import fold_shapes
from openane.passes.hoist_scales import hoist_scales
from openane.passes.ranges import Range, chosen, measured, other_than_gate
from openane.passes.recognise import recognise
from openane.passes.remove_identities import remove_identities
from openane.passes.sink_reshapes import sink_reshapes

READY = (fold_shapes, fold_constants, remove_identities, recognise, sink_reshapes, hoist_scales, fold_affine,
         remove_dead_code)
"""The passes that find constant weights, and put what they can into them."""
WEIGHTS = (2.0 ** -9, 2.0 ** 14)
"""Between what the largest weight of an operation stays: what fp16 then drops of others is a 2^-16th of it."""
BEYOND = 65504.0


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A graph that computes the same, and what was done: for each tensor that is stored times a power of two its name,
    the exponent and the largest number that was measured; the names of those that stay beyond fp16."""

    graph: Graph
    exponents: Mapping[str, tuple[int, float]]
    beyond: tuple[str, ...] = ()


def rescale(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> Rescaled:
    """The graph with what leaves the engine's range on any of `samples` (arrays by input name) moved into it; itself
    where nothing does, and where it has states. GraphError when samples do not fit the inputs."""
    if any(key.startswith(MARK) for key in graph.metadata):
        return Rescaled(graph, {})
    ready = graph
    for rewrite in READY:
        ready = rewrite(ready)
    ranges = measured(ready, samples)
    wanted = chosen(ready, ranges)
    if not wanted:
        return Rescaled(graph, {})
    return _Rewriting(ready, wanted, ranges).result()


class _Rewriting:
    """`_held` has, for each value of the old graph, the new values that are it times 2^e, by e."""

    def __init__(self, graph: Graph, wanted: Mapping[int, int], ranges: Mapping[int, Range]) -> None:
        self._graph, self._wanted, self._ranges = graph, wanted, ranges
        self._builder = GraphBuilder(graph.name, graph.metadata)
        self._held = {id(value): {0: self._builder.input(value.name, value.dtype, value.shape)}
                      for value in graph.inputs}
        self._made = {id(value): node for node in graph.nodes for value in node.outputs}
        self._known: dict[str, tuple[int, float]] = {}
        self._beyond: list[str] = []

    def result(self) -> Rescaled:
        """The graph, node by node."""
        for node in self._graph.nodes:
            said = exponents(node)
            if said.relation is Relation.LINEAR:
                self._linear(node)
            elif said.relation in (Relation.GATED, Relation.PRODUCT) and self._exponent(node.output):
                self._gated(node)
            elif said.relation is Relation.TIED:
                self._tied(node, said)
            elif said.relation is Relation.NORM and (exponent := self._exponent(node["x"])):
                self._norm(node, exponent)
            elif said.relation is Relation.SCORES and (exponent := self._exponent(node["x"])):
                self._scores(node, exponent)
            else:
                self._keep(node, self._add(node, {name: self._plain(operand)
                                                  for name, operand in node.operands.items()}), 0)
        outputs = {value.name: self._at(value, 0) for value in self._graph.outputs}
        made = remove_dead_code(self._builder.finish(outputs))
        return Rescaled(made, self._known, tuple(dict.fromkeys(self._beyond)))

    def _exponent(self, value: Value) -> int:
        return self._wanted.get(id(value), 0)

    def _add(self, node: Node, operands: Mapping[str, Operand]) -> tuple[Value, ...]:
        made = self._builder.add(node.op, node.name or None, node.source, **operands)
        return made if isinstance(made, tuple) else (made,)

    def _keep(self, node: Node, made: tuple[Value, ...], exponent: int) -> None:
        for old, new in zip(node.outputs, made, strict=True):
            self._held[id(old)] = {exponent: new}
            if exponent:
                self._known[old.name] = exponent, self._ranges[id(old)].largest

    def _plain(self, operand: Operand) -> Operand:
        return tuple(self._at(value, 0) for value in operand) if isinstance(operand, tuple) else self._at(operand, 0)

    def _at(self, value: Value, exponent: int) -> Value:
        """The value times 2^exponent."""
        if value.constant:
            return _times(value, exponent)
        held = self._held[id(value)]
        if exponent not in held:
            known, source = next(iter(held.items()))
            if not exponent and self._ranges.get(id(value), Range(0, 0)).largest > BEYOND:
                self._beyond.append(value.name)
            held[exponent] = self._scaled(source, exponent - known, value.name)
        return held[exponent]

    def _scaled(self, source: Value, exponent: int, name: str) -> Value:
        """Times 2^exponent, in as many steps as fp16 has factors."""
        while exponent:
            step = max(-14, min(15, exponent))
            source = self._builder.single("mul", f"{name}_rescaled", x=source, y=2.0 ** step)
            exponent -= step
        return source

    def _tied(self, node: Node, said: Exponents) -> None:
        exponent = self._exponent(node.outputs[0])
        operands = {name: self._plain(operand) for name, operand in node.operands.items() if name not in said.operands}
        for name in said.operands:
            given = node.operands[name]
            operands[name] = tuple(self._at(value, exponent) for value in given) if isinstance(given, tuple) \
                else self._at(given, exponent)
        self._keep(node, self._add(node, operands), exponent)

    def _linear(self, node: Node) -> None:
        """The weights take up what they can of the difference, x the rest."""
        product = get_op(node.op).product
        assert product is not None
        form = product.form(node, node.output.name)
        assert form is not None
        x, weight, bias = form["x"], form["weight"], form.get("bias")
        given, wanted = self._exponent(x), self._exponent(node.output)
        share = _share(weight.array(), wanted - given) if wanted != given else 0
        operands: dict[str, Operand] = {**form.operands, "x": self._at(x, wanted - share),
                                        "weight": _times(weight, share)}
        if bias is not None:
            operands["bias"] = _times(bias, wanted)
        self._keep(node, self._add(replace(form, name=node.name), operands), wanted)

    def _gated(self, node: Node) -> None:
        """x, times what it decides as it is, or times the gate beside it."""
        exponent, unary = self._exponent(node.output), get_op(node.op).unary
        if unary is not None and unary.share is not None:
            share = unary.share(self._builder, self._at(node["x"], 0), settings(unary, node.operands))
            x = self._at(node["x"], exponent)
        else:
            gated = other_than_gate(node, self._made)
            assert gated is not None, "only what hands its exponent on is in a group"
            x, share = self._at(node[gated], exponent), self._at(node["y" if gated == "x" else "x"], 0)
        self._keep(node, (self._builder.single("mul", node.name or None, node.source, x=x, y=share),), exponent)

    def _norm(self, node: Node, exponent: int) -> None:
        operands = {name: self._plain(operand) for name, operand in node.operands.items() if name != "x"}
        epsilon = max(float(node["epsilon"].array()) * 4.0 ** exponent, 2.0 ** -24)
        made = self._builder.add(node.op, node.name or None, node.source, x=self._at(node["x"], exponent),
                                 epsilon=epsilon, **{key: operand for key, operand in operands.items()
                                                     if key != "epsilon"})
        self._keep(node, made if isinstance(made, tuple) else (made,), 0)

    def _scores(self, node: Node, exponent: int) -> None:
        """Differences to the largest score, which may be as small as they like."""
        axis = int(node["axis"].array()) if node.get("axis") is not None else -1
        x, name = self._at(node["x"], exponent), node.output.name
        largest = self._builder.single("reduce_max", f"{name}_largest", x=x, axes=(axis,), keep_dims=True)
        below = self._builder.single("sub", f"{name}_below", x=x, y=largest)
        operands = {key: self._plain(operand) for key, operand in node.operands.items() if key != "x"}
        self._keep(node, self._add(node, operands | {"x": self._scaled(below, -exponent, name)}), 0)


def _share(weight: np.ndarray, exponent: int) -> int:
    """How much of a power of two weights can take up."""
    largest = float(np.max(np.abs(weight.astype(np.float64)), initial=0.0))
    if not largest or not math.isfinite(largest):
        return exponent
    low, high = (math.floor(math.log2(end / largest)) for end in WEIGHTS)
    return max(min(exponent, max(high, 0)), min(low, 0))


def _times(constant: Value, exponent: int) -> Value:
    """A constant of real numbers times 2^exponent; itself where there is nothing to do."""
    if not exponent or constant.array().dtype.kind != "f":
        return constant
    array = constant.array()
    data = np.ldexp(array.astype(np.float64), exponent).astype(array.dtype)
    return Value(f"{constant.name}_rescaled", TensorType(constant.dtype, data.shape), data)
