"""The whole way from a graph to a compiled model: it is planned (passes, legality, lowering, placement, emission), and
the results are put together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Chip, get_chip
from openane.compiler.buffers.storage import port_layout
from openane.compiler.inspect.fp16_concerns import concerns
from openane.compiler.inspect.report import report
from openane.compiler.lower.byte_types import STORED, stored
from openane.compiler.model import CompiledModel
from openane.compiler.partition.capacity import Capacity
from openane.compiler.partition.events import Tell
from openane.compiler.partition.hosting import AllowHost
from openane.compiler.partition.planning import PartitionPlan
from openane.compiler.patch.later_routes import patchable, with_values
from openane.compiler.records import Port, State
from openane.compiler.search import best_plan
from openane.graph import Graph, Value, in_their_types, numpy_type
from openane.ops import get_op


def compile_graph(graph: Graph, target: str, allow_host: AllowHost = False, tell: Tell | None = None,
                  samples: Mapping[str, np.ndarray] | None = None, capacity: Capacity | None = None) -> CompiledModel:
    """The graph as engine programs for the generation `target`. `tell` hears what happens; other arguments, and errors,
    as for `api.compile`."""
    chip = get_chip(target)
    made = best_plan(graph, target, allow_host, tell, capacity)
    plain = made.source
    ports = {value.name: _port(graph, value, made, chip) for value in (*plain.graph.inputs, *plain.graph.outputs)}
    states = tuple(State(ports[value.name], plain.next.get(value.name)) for value in plain.states)
    held = {state.name for state in states}
    inputs = tuple(ports[value.name] for value in graph.inputs if value.name not in held)
    outputs = tuple(ports[value.name] for value in graph.outputs)
    zeros = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states}
    kept, in_types = _kept(graph, made)
    traced = kept if plain.graph is graph else with_values(plain.graph, in_types)
    return CompiledModel(
        graph.name, target, inputs, outputs, tuple(piece.program for piece in made.pieces), made.steps,
        report(plain.graph, made, (*inputs, *outputs)), kept,
        concerns(made.graph, None if samples is None else zeros | dict(samples)), states,
        known_programs=tuple(piece.known() for piece in made.pieces),
        patchable=patchable(traced, made.pieces, chip, in_types))


def _kept(graph: Graph, made: PartitionPlan) -> tuple[Graph, Mapping[int, Value]]:
    """The graph as the model keeps it, to be compiled again: constants in their types, with all of their digits where
    something counts steps; and what other constants are in their types, by id."""
    counts = any(get_op(node.op).rounds for node in made.graph.nodes)
    return (graph, {}) if counts else in_their_types(graph)


def _port(graph: Graph, value: Value, made: PartitionPlan, chip: Chip) -> Port:
    """The port; importers that narrow a model's ports to fp16 say in the metadata what they were."""
    declared = graph.metadata.get(f"dtype:{value.name}", value.dtype)
    layout = next((found[value.name] for piece in made.pieces if value.name in (found := piece.lowered.layouts)),
                  port_layout(value.shape, chip.limits.memory_alignment, stored(value)))
    return Port(value.name, value.shape, declared if declared in STORED else value.dtype, layout)
