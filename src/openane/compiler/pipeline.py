"""The whole way from a graph to a model: verify, passes, legality, lowering, placement, emission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET, get_chip, machines
from openane.compiler.buffers.storage import port_layout
from openane.compiler.inspect.dump import Watch, ignore
from openane.compiler.inspect.fp16_concerns import concerns
from openane.compiler.inspect.report import report
from openane.compiler.lower.byte_types import STORED, stored
from openane.compiler.model import Model, Port, State
from openane.compiler.partition.capacity import Capacity
from openane.compiler.partition.legality import check_interface, check_known
from openane.compiler.partition.planning import Plan, plan
from openane.compiler.partition.program import Context, Lowered
from openane.compiler.patch.find_routes import traced
from openane.compiler.patch.writer import Patchable
from openane.compiler.states import Stateless, without_states
from openane.graph import Graph, Value, numpy_type


def compile(graph: Graph, target: str = DEFAULT_TARGET, allow_host: bool = False, watch: Watch = ignore,
            samples: Mapping[str, np.ndarray] | None = None, cache: bool | str | Path = False,
            capacity: Capacity | None = None) -> Model:
    """The graph as engine programs for `target` (a machine, chip or generation): one, or as many as hold it.

    Everything runs on the engine except packing of ports (element type fp32, strides), which the report lists.
    GraphError when the graph is malformed; UnsupportedError names every operation the engine cannot take, unless
    `allow_host` lets the host compute those between programs: the report lists them with the rule they break. `watch`
    is called with the name and text of every stage: the graph after each pass, lowered operations, what stays in L2,
    placement, tiling, weights. On `samples` (arrays by input name) the model is also evaluated, and `concerns` of the
    result say where it leaves fp16. `cache` keeps compiled models in a folder and takes them from there: True is the
    user's own (see openane.cache). `capacity` makes programs smaller than they could be.
    """
    target = machines.target(target).name
    if cache and watch is ignore and capacity is None:
        from openane.compiler.cache import cached
        return cached(graph, target, allow_host, samples, None if cache is True else Path(cache))
    plain, made = planned(graph, target, allow_host, watch, capacity)
    return _model(graph, plain, made, target, samples)


def planned(graph: Graph, target: str, allow_host: bool = False, watch: Watch = ignore,
            capacity: Capacity | None = None, before: Sequence[Lowered] = ()) -> tuple[Stateless, Plan]:
    """The graph without states, and its programs and steps, nothing said about them yet; see Context for `before`.
    Errors as for `compile`."""
    graph.verify()
    chip = get_chip(target)
    plain = without_states(graph)
    check_interface(plain.graph)
    check_known(plain.graph)
    kept = frozenset((*(value.name for value in plain.states), *plain.next.values()))
    context = Context(chip, capacity or Capacity.of(chip.limits), graph.name, watch, kept, before)
    return plain, plan(plain.graph, context, allow_host)


def _model(graph: Graph, plain: Stateless, made: Plan, target: str,
           samples: Mapping[str, np.ndarray] | None) -> Model:
    ports = {value.name: _port(graph, value, made, target) for value in (*plain.graph.inputs, *plain.graph.outputs)}
    states = tuple(State(ports[value.name], plain.next.get(value.name)) for value in plain.states)
    held = {state.name for state in states}
    inputs = tuple(ports[value.name] for value in graph.inputs if value.name not in held)
    outputs = tuple(ports[value.name] for value in graph.outputs)
    zeros = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states}
    return Model(graph.name, target, inputs, outputs, tuple(segment.program for segment in made.segments),
                 tuple(made.steps), report(plain.graph, made, (*inputs, *outputs)), graph,
                 concerns(made.graph, None if samples is None else zeros | dict(samples)), states,
                 lowered=tuple(segment.lowered() for segment in made.segments),
                 patchable=Patchable(traced(plain.graph, made.segments), get_chip(target).limits))


def _port(graph: Graph, value: Value, made: Plan, target: str) -> Port:
    """The port; importers that narrow a model's ports to fp16 say in the metadata what they were."""
    declared = graph.metadata.get(f"dtype:{value.name}", value.dtype)
    layout = next((found[value.name] for segment in made.segments if value.name in (found := segment.layouts())),
                  port_layout(value.shape, get_chip(target).limits.memory_alignment, stored(value)))
    return Port(value.name, value.shape, declared if declared in STORED else value.dtype, layout)
