"""Inputs that a model rounds to steps of quantisation, as they are or once it has computed with them.

A quantised model begins with a rounding: its fp32 inputs become whole steps, or their norms do. The engine reads fp16,
and of the numbers that fp16 rounds some would become the step beside the right one. The host has all digits while it
packs the inputs, so it takes those steps, and the engine's first operation is the one that reads them.

What a step is computed from may be steps as well, such as a variance by whose root an input is divided: the host makes
those, too, where they are the input's alone. Something that only the engine computes ends that, such as a product of
matrices or a function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from openane.compiler.partition.hosting import HostPolicy
from openane.graph import Graph, Node, TensorType, Value, substituted
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.of_inputs import OfInput, is_arithmetic, made_of
from openane.ops.step_values import rounds
from openane.ops.weights import numbers
from openane.ops.written_steps import in_fp32
from openane.record_classes import dataclass

ROUNDED = "The model rounds an input to whole steps, of which fp16 would change some; the host has all of its digits."
COMPUTED = "The model rounds what it computes of an input to whole steps, of which fp16 would change some; the host " \
           "has all of the input's digits."
NORMALISED = "The model rounds a norm of an input, or a part of one, to whole steps, of which fp16 would change " \
             "some; the host has all of the input's digits."
WITH_ALL_DIGITS = {OfInput.AS_IT_IS: ROUNDED, OfInput.COMPUTED: COMPUTED, OfInput.NORMALISED: NORMALISED}
"""Why operations run on the host that compute in fp32 there."""

WIDE = ("fp32", "fp64")
"""Types a model may declare for an input, some of which no array has, that hold more digits than fp16."""


def with_rounded_inputs(graph: Graph, hosted: Mapping[int, str], policy: HostPolicy) -> dict[int, str]:
    """By id, why more nodes run on the host: those that round inputs the model states in more digits than fp16 has,
    what these are on the way there, and what else is computed of inputs for it. Nothing where the host may not, or
    where nothing is left to the engine."""
    inputs = _Inputs({id(value) for value in graph.inputs}, graph.metadata.get(FUNCTIONS) == CLOSE,
                     {id(value): OfInput.AS_IT_IS for value in graph.inputs if _is_wide(graph, value)})
    found: dict[int, str] = {}
    for node in graph.nodes:
        made = None if id(node) in hosted else inputs.take(node)
        way = [] if made is None else inputs.way(node)
        if made is not None and _may_compute(policy, node, way):
            found = dict.fromkeys(map(id, way), WITH_ALL_DIGITS[made]) | found
    left = {id(node) for node in graph.nodes} - found.keys() - hosted.keys()
    return found if left else {}


def _may_compute(policy: HostPolicy, node: Node, way: Sequence[Node]) -> bool:
    """Whether the host may round what a node does, and compute what that is made of."""
    return policy.rounds(node) and all(policy.rounds(each) or made_of(each) is OfInput.AS_IT_IS for each in way)


@dataclass(slots=True)
class _Inputs:
    """Values that are known once the inputs are, by id: all of them, what those are that have more digits than fp16,
    and the nodes that make them. `close`: whether what is computed of inputs is to be as exact as inputs are."""

    known: set[int]
    close: bool
    digits: dict[int, OfInput]
    makers: dict[int, Node] = field(default_factory=dict)

    def take(self, node: Node) -> OfInput | None:
        """What a node rounds that has more digits than fp16; None where it rounds nothing of the kind."""
        read = node.computed()
        if not self.known.issuperset(map(id, read)) or not is_arithmetic(node, self.close):
            return None
        self.makers[id(node.output)] = node
        self.known.add(id(node.output))
        before = [self.digits[id(value)] for value in read if id(value) in self.digits]
        if not before:
            return None
        made = max(*before, made_of(node))
        if rounds(node):
            return made
        self.digits[id(node.output)] = made
        return None

    def way(self, node: Node) -> Sequence[Node]:
        """A node, and what makes inputs what it reads."""
        way, waiting = {id(node): node}, [node]
        while waiting:
            before = {id(each): each for value in waiting.pop().computed()
                      if (each := self.makers.get(id(value))) is not None}
            waiting += [each for key, each in before.items() if key not in way]
            way |= before
        return list(way.values())


def may_round_inputs(graph: Graph) -> bool:
    """Whether a graph, before any pass, has what `with_rounded_inputs` looks for: inputs in many digits, and something
    that rounds."""
    return any(_is_wide(graph, value) for value in graph.inputs) and any(map(rounds, graph.nodes))


def with_all_digits(node: Node) -> Node:
    """An operation on real numbers as the host computes it: of numbers in fp32, to numbers in fp32, with constants in
    all digits the model states. Buffers keep their names."""
    real = {id(value): in_fp32(value.name, numbers(value)) if value.constant else
            replace(value, type=TensorType("fp32", value.shape))
            for value in (*node.values(), *node.outputs) if value.dtype == "fp16"}
    return replace(substituted(node, real), outputs=tuple(real.get(id(value), value) for value in node.outputs))


def _is_wide(graph: Graph, value: Value) -> bool:
    """Whether an input has digits that fp16 does not hold."""
    return graph.metadata.get(f"dtype:{value.name}", value.dtype) in WIDE
