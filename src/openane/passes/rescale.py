"""Numbers that the engine would not hold, or sum badly, made larger or smaller by exact powers of two.

Where an operation is indifferent to exponents its result has that of its operands; where it has constant weights these
take up the difference, at no cost; elsewhere one multiplication does. Outputs are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from openane.chips import DEFAULT_TARGET, get_chip
from openane.graph import Graph, Node, numpy_type
from openane.graph.states import Stateless, with_states, without_states
from openane.ops import get_op
from openane.ops.evaluate import evaluate
from openane.ops.rules import broken_rules
from openane.passes.dead_code import remove_dead_code
from openane.passes.decompose import decompose
from openane.passes.exponent_choice import chosen, raises_products
from openane.passes.exponent_groups import read_by_logarithms, said_of
from openane.passes.fold_affine import fold_affine
from openane.passes.fold_constants import fold_constants
from openane.passes.fold_shapes import fold_shapes
from openane.passes.glance import glanced
from openane.passes.hoist_scales import hoist_scales
from openane.passes.logarithm_channels import even_channels
from openane.passes.ranges import measured
from openane.passes.recognise import recognise
from openane.passes.remove_identities import remove_identities
from openane.passes.rescaling import Rescaling
from openane.passes.sink_reshapes import sink_reshapes
from openane.passes.small_results import differences, keep_small_results, written_out
from openane.record_classes import dataclass

READY = (fold_constants, remove_identities, recognise, differences, sink_reshapes, hoist_scales,
         partial(fold_affine, digits=True), remove_dead_code)
"""The passes that find constant weights, and put what they can into them."""


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A graph that computes the same, and what was done: for each tensor that is stored times a power of two its name,
    the exponent and the largest number that was measured; how many sums have an exponent of their own, which their own
    tasks take back; the names of tensors that stay beyond fp16; how many sums have an exponent for each channel; and
    whether products of computed tensors are raised, which other inputs may make larger by far."""

    graph: Graph
    exponents: Mapping[str, tuple[int, float]]
    sums: int = 0
    beyond: tuple[str, ...] = ()
    channels: int = 0
    products: bool = False


def rescale(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> Rescaled:
    """The graph with what leaves the engine's range on any of `samples` (arrays by input name) moved into it, and with
    functions marked whose small results count; itself where nothing does. States, zeros where samples do not say what
    they hold, are as they were; one that is read and never written leaves the graph as it is. GraphError when samples
    do not fit the inputs."""
    plain = without_states(graph)
    if not plain.states:
        return _rescaled(graph, samples)
    if len(plain.next) < len(plain.states):
        return Rescaled(graph, {})
    made = _rescaled(plain.graph, [each for sample in samples for each in _two_runs(plain, sample)])
    return replace(made, graph=graph if made.graph is plain.graph else with_states(made.graph, plain.next))


def _two_runs(plain: Stateless, sample: Mapping[str, np.ndarray]) -> list[Mapping[str, np.ndarray]]:
    """A sample with what the states hold before a first run, and after it."""
    first = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states} | dict(sample)
    left = evaluate(plain.graph, first)
    types = {value.name: numpy_type(value.dtype) for value in plain.states}
    return [first, first | {name: left[output].astype(types[name]) for name, output in plain.next.items()}]


def _rescaled(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> Rescaled:
    ready = fold_constants(fold_shapes(graph))
    if all(_keeps_rules(node) for node in ready.nodes):
        ready = decompose(ready)
    for rewrite in READY:
        ready = rewrite(ready)
    ready, channels = even_channels(ready, samples)
    said = said_of(ready)
    plain, near = ready, glanced(ready, said, samples)
    ranges = measured(ready, samples, read_by_logarithms(ready, said)) if near is None else near
    ready = keep_small_results(ready, ranges)
    if near is not None:  # nothing is held times a power of two
        return Rescaled(written_out(ready) if channels or ready is not plain else graph, {}, channels=channels)
    said = said if ready is plain else said_of(ready)
    wanted = chosen(ready, said, ranges)
    if not (wanted.values or wanted.sums):
        return Rescaled(written_out(ready) if channels or ready is not plain else graph, {}, channels=channels)
    work = Rescaling(ready, said, wanted, ranges)
    return Rescaled(written_out(work.result()), work.known, len(wanted.sums), tuple(dict.fromkeys(work.beyond)),
                    channels, raises_products(ready, said, wanted))


def _keeps_rules(node: Node) -> bool:
    """Whether a node that runs as several others may: what breaks its rules is refused, or left to the host, whole."""
    op = get_op(node.op)
    return op.decompose is None or not broken_rules(op, node, get_chip(DEFAULT_TARGET).limits)
