"""Writes a graph whose tensors are held times powers of two, node by node: each node in the form its relation to
exponents allows (ops.exponents), with a multiplication where it allows none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openane.chips.arithmetic import SUM_LIMIT
from openane.graph import Graph, Node, Operand, Value
from openane.ops import get_op
from openane.ops.build import Given, GraphBuilder
from openane.ops.exponents import Exponents, Relation
from openane.ops.halves import LARGEST, SMALLEST, SMALLEST_NORMAL
from openane.ops.unary import HELD
from openane.ops.weights import numbers
from openane.passes.dead_code import remove_dead_code
from openane.passes.exponent_choice import LIMIT, RAISED, Chosen, least
from openane.passes.exponent_groups import Said
from openane.passes.norm_exponents import held_norm
from openane.passes.product_exponents import exponents_of, total
from openane.passes.ranges import Range, Ranges
from openane.passes.weight_room import biased, keeps_bounds, share, times

MANY = 4096
"""More products than most sums have."""
WORSE = 8.0
"""How many digits that the smallest numbers of a tensor lose weigh as much as one power of two that its largest is
beyond the range: an infinity spoils what is computed of it, and digits are only missing."""
SCALES = 14
"""A softmax multiplies differences by up to 2^14, and by 2^-14 at the least: times log2 e these are fp16 numbers with
all their digits."""
DECIDED = 29
"""The power of two that makes 32 of the smallest difference of two fp16 numbers: who scores 32 less has none of it."""


class Rescaling:
    """`_held` has, for each value of the old graph, the new values that are it times 2^e, by e. `known`: of each tensor
    that is stored so its name, the exponent and the largest number that was measured; `beyond`: the names of those that
    are read as they are, beyond fp16."""

    def __init__(self, graph: Graph, said: Said, wanted: Chosen, ranges: Ranges) -> None:
        self._graph, self._said, self._wanted, self._ranges = graph, said, wanted, ranges
        self._builder = GraphBuilder(graph.name, graph.metadata)
        self._held = {id(value): {0: self._builder.input(value.name, value.dtype, value.shape)}
                      for value in graph.inputs}
        self.known: dict[str, tuple[int, float]] = {}
        self.beyond: list[str] = []
        self._ways = {Relation.LINEAR: self._linear, Relation.SCALED: self._scaled, Relation.AFFINE: self._affine,
                      Relation.TIED: self._tied, Relation.SUMMED: self._summed, Relation.GATED: self._gated,
                      Relation.POWERS: self._powers, Relation.RAISING: self._raised,
                      Relation.LOWERING: self._lowered, Relation.NORM: self._norm, Relation.SCORES: self._scores}

    def result(self) -> Graph:
        """The graph."""
        for node in self._graph.nodes:
            about = self._said.exponents[id(node)]
            way = self._ways.get(about.relation)
            moved = any(self._exponent(value) or id(value) in self._wanted.sums
                        or 0 not in self._held.get(id(value), {0: None}) for value in (*node.values(), *node.outputs))
            if way is None or not moved:
                self._keep(node, self._add(node, self._plain(node)), 0)
            else:
                way(node, about)
        return remove_dead_code(self._builder.finish({value.name: self._at(value, 0)
                                                      for value in self._graph.outputs}))

    def _exponent(self, value: Value) -> int:
        return self._wanted.values.get(id(value), 0)

    def _range(self, value: Value) -> Range:
        return self._ranges.get(id(value), Range(1.0, 1.0))

    def _add(self, node: Node, operands: Mapping[str, Given]) -> tuple[Value, ...]:
        made = self._builder.add(node.op, node.name or None, node.source, **operands)
        return made if isinstance(made, tuple) else (made,)

    def _keep(self, node: Node, made: tuple[Value, ...], exponent: int) -> None:
        for old, new in zip(node.outputs, made, strict=True):
            self._held[id(old)] = {exponent: new}
            if exponent:
                self.known[old.name] = exponent, self._range(old).largest

    def _plain(self, node: Node) -> dict[str, Operand]:
        """The operands as they are."""
        return {name: tuple(self._at(value, 0) for value in operand) if isinstance(operand, tuple)
                else self._at(operand, 0) for name, operand in node.operands.items()}

    def _at(self, value: Value, exponent: int) -> Value:
        """The value times 2^exponent."""
        if value.constant:
            return times(value, exponent)
        held = self._held[id(value)]
        if exponent not in held:
            known, source = next(iter(held.items()))
            if not exponent and self._range(value).largest > LARGEST:
                self.beyond.append(value.name)
            held[exponent] = self._multiplied(source, exponent - known, value, self._suits_sums(value, known)
                                              and not self._suits_sums(value, exponent))
        return held[exponent]

    def _multiplied(self, source: Value, exponent: int, of: Value, needed: bool = False) -> Value:
        """Times 2^exponent, in as many steps as fp16 has factors. Where sums need their exponent, be they those of what
        `of` was made of, weights must not take it back: they take up products, and no activations."""
        seen = self._range(of)
        needed = needed or seen.largest > LIMIT or seen.usual < least(MANY)
        while exponent:
            step = max(-14, min(15, exponent))
            name = f"{of.name}_rescaled"
            source = self._builder.single("linear_activation", name, x=source, alpha=2.0 ** step, beta=0.0) if needed \
                else self._builder.single("mul", name, x=source, y=2.0 ** step)
            exponent -= step
        return source

    def _suits_sums(self, value: Value, exponent: int) -> bool:
        """Whether sums with constant weights could make a value times 2^exponent well."""
        seen = self._range(value)
        return seen.largest * 2.0 ** exponent <= LIMIT and seen.usual * 2.0 ** exponent >= least(MANY)

    def _tied(self, node: Node, about: Exponents) -> None:
        """All at one exponent, bounds among them; as it is where a bound would lose its digits."""
        exponent = self._exponent(node.outputs[0])
        if not keeps_bounds(node, about.operands, exponent):
            return self._keep(node, self._add(node, self._plain(node)), 0)
        operands = self._others(node, about.operands)
        for name in about.operands:
            given = node.operands[name]
            operands[name] = tuple(self._at(value, exponent) for value in given) if isinstance(given, tuple) \
                else self._at(given, exponent)
        return self._keep(node, self._add(node, operands), exponent)

    def _others(self, node: Node, names: tuple[str, ...]) -> dict[str, Given]:
        """The operands that exponents are not about, as they are."""
        return dict(self._plain(replace(node, operands={name: operand for name, operand in node.operands.items()
                                                        if name not in names})))

    def _linear(self, node: Node, about: Exponents) -> None:
        """The weights take up what they can of the difference, x what it has room for. An exponent that only the sums
        have is taken back behind them, by the post scale of the same task."""
        product = get_op(node.op).product
        assert product is not None
        form = product.form(node, node.output.name)
        assert form is not None
        x, weight, bias = form["x"], form["weight"], form.get("bias")
        wanted, inner = self._exponent(node.output), self._wanted.sums.get(id(node.output), 0)
        taken = share(weight.array(), wanted + inner - self._exponent(x))
        given = self._room(x, wanted + inner - taken)
        made = given + taken
        operands: dict[str, Operand] = {**form.operands, "x": self._at(x, given), "weight": times(weight, taken)}
        if bias is not None and made != wanted and not biased(node):
            del operands["bias"]
        elif bias is not None:
            operands["bias"] = times(bias, made)
        result, = self._add(replace(form, name=f"{node.output.name}_sums" if made != wanted else node.name), operands)
        self._keep(node, (self._multiplied(result, wanted - made, node.output, True),), wanted)

    def _room(self, x: Value, exponent: int) -> int:
        """The exponent, as far as fp16 holds x times that, or x is held at it anyway."""
        largest = self._range(x).largest
        room = math.floor(math.log2(LARGEST / largest)) if largest else exponent
        return min(exponent, max(room, self._exponent(x)))

    def _scaled(self, node: Node, about: Exponents) -> None:
        """The constant takes up what it can of the difference, x what it has room for."""
        (name,), ((constant, degree),) = about.operands, about.degrees.items()
        wanted = self._exponent(node.output)
        sign = round(degree)
        taken = share(node[constant].array(), sign * (wanted - self._exponent(node[name])))
        given = self._room(node[name], wanted - sign * taken)
        made = given + sign * taken
        x, number = self._at(node[name], given), times(node[constant], taken)
        if number.type.elements == 1 and x.type == node.output.type and (number.array() == 1).all():
            result: tuple[Value, ...] = (x,)
        else:
            result = self._add(node, self._others(node, (name, constant)) | {name: x, constant: number})
        self._keep(node, (self._multiplied(result[0], wanted - made, node.output, True),), wanted)

    def _affine(self, node: Node, about: Exponents) -> None:
        """The mean has the exponent of x; gamma takes up the difference to that of beta and the result."""
        x, variance, wanted = node["x"], node["variance"], self._exponent(node.output)
        ones = Value(f"{node.output.name}_gamma", variance.type, np.ones(variance.shape, variance.array().dtype))
        gamma = node.get("gamma") or ones
        taken = share(gamma.array(), wanted - self._exponent(x))
        given = self._room(x, wanted - taken)
        made = given + taken
        operands = self._others(node, ("x",)) | {"x": self._at(x, given), "mean": times(node["mean"], given),
                                                 "gamma": times(gamma, taken)}
        if (beta := node.get("beta")) is not None:
            operands["beta"] = times(beta, made)
        result, = self._add(node, operands)
        self._keep(node, (self._multiplied(result, wanted - made, node.output, True),), wanted)

    def _summed(self, node: Node, about: Exponents) -> None:
        """Operands and result at their own exponents: the planar engine multiplies one operand as it reads it, and the
        result as it writes it. Added at an exponent where both, and their sum, are in range."""
        x, y, wanted = node["x"], node["y"], self._exponent(node.output)
        ways = [(first, second, made) for first in self._held[id(x)] for second in self._held[id(y)]
                for made in {first, second, wanted}]

        def cost(way: tuple[int, int, int]) -> float:
            first, second, made = way
            beyond = sum(self._beyond(value, made) for value in (x, y, node.output))
            return 64 * beyond + 16 * (first != made != second) + abs(made - wanted) / 64

        first, second, made = min(ways, key=cost)
        operands = {"x": self._entering(x, first, made), "y": self._entering(y, second, made)}
        name = f"{node.output.name}_sum" if made != wanted else node.name
        result, = self._add(replace(node, name=name), operands)
        self._keep(node, (self._multiplied(result, wanted - made, node.output, True),), wanted)

    def _entering(self, value: Value, known: int, exponent: int) -> Value:
        """The value times 2^exponent for one planar operation, which multiplies what nothing else reads."""
        return self._multiplied(self._held[id(value)][known], exponent - known, value, True)

    def _beyond(self, value: Value, exponent: int) -> float:
        """How far, in powers of two, a value times 2^exponent is beyond fp16."""
        largest = self._range(value).largest
        return max(0.0, math.log2(largest / LARGEST) + exponent) if largest else 0.0

    def _gated(self, node: Node, about: Exponents) -> None:
        """x, times what it decides as it is."""
        exponent = self._exponent(node.output)
        operands = self._others(node, ("x",)) | {"x": self._at(node["x"], exponent), HELD: exponent or None}
        self._keep(node, self._add(node, operands), exponent)

    def _powers(self, node: Node, about: Exponents) -> None:
        """Operands at the exponents that need the fewest multiplications, of those that keep all in range. What is made
        is more often multiplied in the same task than what is read."""
        gated = self._said.gated.get(id(node))
        wanted = self._exponent(node.output)
        handed = gated is not None and self._exponent(node[gated]) == wanted  # other where they are too far apart
        ways = [{name: wanted if name == gated else 0 for name in about.operands}] if handed else \
            exponents_of(about.degrees, wanted, {name: self._held[id(node[name])] for name in about.degrees},
                         lambda name: self._usual(node[name]))

        def cost(way: Mapping[str, int]) -> float:
            made = total(about.degrees, way)
            moved = sum(way[name] not in self._held[id(node[name])] for name in way) + (made != wanted) / 2
            return moved + 8 * sum(self._strays(node[name], exponent) for name, exponent in way.items()) \
                + 8 * self._strays(node.output, made, self._said.products[id(node)])

        way = min(ways, key=cost)
        made = total(about.degrees, way)
        operands = self._others(node, about.operands) | {name: self._at(node[name], exponent)
                                                         for name, exponent in way.items()}
        if (epsilon := node.get("epsilon")) is not None:
            operands["epsilon"] = max(float(numbers(epsilon)) * 2.0 ** way["x"], SMALLEST)
        self._keep(node, self._add(node, operands), made)

    def _usual(self, value: Value) -> int:
        """The exponent that makes the root mean square of a value 1, about."""
        usual = self._range(value).usual
        return -round(math.log2(usual)) if usual else 0

    def _strays(self, value: Value, exponent: int, sums: int = 0) -> float:
        """How far, in powers of two, a value times 2^exponent is from what is held, and made well as so many sums; what
        is too large counts WORSE times as much, and what is raised needs room for inputs that are larger."""
        seen = self._range(value)
        if not seen.usual:
            return 0.0
        largest, usual = math.log2(seen.largest) + exponent, math.log2(seen.usual) + exponent
        low = -math.inf if id(value) in self._said.scores else math.log2(max(4 * SMALLEST_NORMAL, least(sums)))
        raised = largest - math.log2(RAISED) if exponent > 0 else 0.0
        return max(0.0, WORSE * (largest - math.log2(SUM_LIMIT / 2)), raised, low - usual)

    def _raised(self, node: Node, about: Exponents) -> None:
        """What is added to x multiplies the result."""
        wanted, x = self._exponent(node.output), self._at(node["x"], 0)
        if wanted:
            x = self._builder.single("add", f"{node['x'].name}_raised", x=x, y=wanted * about.step)
        self._keep(node, self._add(node, self._others(node, ("x",)) | {"x": x}), wanted)

    def _lowered(self, node: Node, about: Exponents) -> None:
        """The logarithm of x times 2^e, and what it is too large by."""
        exponent = self._exponent(node["x"])
        if not exponent:
            return self._keep(node, self._add(node, self._plain(node)), 0)
        operands = self._others(node, ("x",)) | {"x": self._at(node["x"], exponent)}
        if (epsilon := node.get("epsilon")) is not None:
            operands["epsilon"] = float(numbers(epsilon)) * 2.0 ** exponent
        made, = self._add(replace(node, name=f"{node.output.name}_rescaled"), operands)
        result = self._builder.single("add", node.name or None, node.source, x=made, y=-exponent * about.step)
        return self._keep(node, (result,), 0)

    def _norm(self, node: Node, about: Exponents) -> None:
        """x and the result at exponents of their own."""
        wanted = self._exponent(node.output)
        held = held_norm(node, self._exponent(node["x"]), wanted)
        result, = self._add(node, self._others(node, ("x",)) | held.operands | {"x": self._at(node["x"], held.read)})
        self._keep(node, (self._multiplied(result, wanted - held.made, node.output, True),), wanted)

    def _scores(self, node: Node, about: Exponents) -> None:
        """Scores are compared at their own exponent, and their differences to the largest, which may be as small as
        they like, have it taken back by the softmax itself, as far as it can."""
        held = self._held[id(node["x"])]
        exponent = min(held, key=lambda each: (abs(self._exponent(node["x"]) - each), each))
        x, operands = held[exponent], self._others(node, ("x",))
        taken = max(-SCALES, min(exponent, SCALES))
        if exponent < taken:
            axis = int(node["axis"].array()) if node.get("axis") is not None else -1
            largest = self._builder.single("reduce_max", f"{node.output.name}_largest", x=x, axes=(axis,),
                                           keep_dims=True)
            x = self._builder.single("sub", f"{node.output.name}_below", x=x, y=largest)
        rest = max(exponent - taken, -DECIDED)
        operands["x"] = self._multiplied(x, -rest, node["x"], True)
        if taken:
            operands["scale"] = 2.0 ** -taken
        self._keep(node, self._add(node, operands), 0)
