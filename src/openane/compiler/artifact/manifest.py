"""One function of a compiled model as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from math import prod
from typing import Any

from openane.compiler.artifact.source_graphs import Graphs
from openane.compiler.model import CompiledModel, Source
from openane.compiler.records import Concern, Entry, HostStep, Port, ProgramStep, State, Where
from openane.engine import DType
from openane.errors import FormatError
from openane.graph import NUMPY_TYPES
from openane.program import Layout, Program

Document = dict[str, Any]


def describe(model: CompiledModel, programs: Sequence[int], hosted: Sequence[str]) -> Document:
    """What a manifest says of a function; `programs` are the numbers of its programs among the bundle's, `hosted` what
    its host steps are called in the bundle's MIL program."""
    graph = model.graph
    names = iter(hosted)
    return {
        "name": model.name, "target": model.target, "programs": list(programs),
        "arguments": [value.name for value in graph.inputs], "results": [value.name for value in graph.outputs],
        "metadata": dict(graph.metadata),
        "steps": [{"host": next(names), "operands": [v.name for v in step.operands],
                   "results": [v.name for v in step.results]}
                  if isinstance(step, HostStep) else {"program": step.program} for step in model.steps],
        "inputs": [_write_port(port) for port in model.inputs],
        "outputs": [_write_port(port) for port in model.outputs],
        "states": [{"port": _write_port(state.port), "next": state.next} for state in model.states],
        "report": [{"operation": e.operation, "where": str(e.where), "reason": e.reason, "tasks": list(e.tasks),
                    "program": e.program} for e in model.report],
        "concerns": [asdict(concern) for concern in model.concerns],
        **({} if model.padding is None else {"padding": dict(model.padding)}),
    }


def restore(function: Mapping[str, Any], programs: Sequence[Program], graphs: Graphs,
            source: Source | None) -> CompiledModel:
    """The function of a manifest. FormatError where programs and manifest do not fit; KeyError, TypeError, ValueError
    and AttributeError where the manifest is malformed."""
    name = str(function["name"])
    numbers = [int(number) for number in function["programs"]]
    if any(not 0 <= number < len(programs) for number in numbers):
        raise FormatError(f"function {name!r} names a program that is not there", expected=f"0 to {len(programs) - 1}",
                          found=numbers)
    inputs, outputs = (tuple(_read_port(port) for port in function[side]) for side in ("inputs", "outputs"))
    states = tuple(State(_read_port(state["port"]), None if state["next"] is None else str(state["next"]))
                   for state in function["states"])
    report = tuple(map(_read_entry, function["report"]))
    concerns = tuple(Concern(str(c["operation"]), str(c["what"]), float(c["found"]), float(c["limit"]),
                             str(c["remedy"])) for c in function["concerns"])
    model = CompiledModel(name, str(function["target"]), inputs, outputs, tuple(programs[number] for number in numbers),
                  tuple(_read_step(step, graphs, len(numbers)) for step in function["steps"]), report,
                  source if source is not None else cache(partial(graphs, name)), concerns, states,
                  padding=_read_padding(function.get("padding"), frozenset(port.name for port in inputs)),
                  stated=_read_metadata(function["metadata"]))
    _check(model)
    return model


def _read_entry(stated: Mapping[str, Any]) -> Entry:
    return Entry(str(stated["operation"]), Where(stated["where"]), str(stated["reason"]),
                 tuple(map(int, stated["tasks"])), int(stated["program"]))


def _read_metadata(stated: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in stated.items()}


def _read_padding(stated: Mapping[str, Any] | None, inputs: frozenset[str]) -> dict[str, float] | None:
    """The numbers inputs are padded with. ValueError for what is no input."""
    if stated is None:
        return None
    if not set(stated) <= inputs:
        raise ValueError(f"padding of {', '.join(sorted(set(stated) - inputs))}, which is no input")
    return {str(name): float(number) for name, number in stated.items()}


def _check_host_step(step: HostStep, known: set[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """What a step reads is among what is `known`, which then has its results, in the shapes others state."""
    _require(known, [value.name for value in step.operands])
    known |= {value.name for value in step.results}
    for value in (*step.operands, *step.results):
        _agree(value.name, shapes.setdefault(value.name, value.shape), value.shape)


def _check_program(program: Program, known: set[str], surfaces: dict[str, Layout]) -> None:
    """As `_check_host_step`, of an engine program and surfaces."""
    _require(known, [buffer.name for buffer in program.inputs])
    known |= {buffer.name for buffer in program.outputs}
    for buffer in (*program.inputs, *program.outputs):
        _agree(buffer.name, surfaces.setdefault(buffer.name, buffer.layout or surfaces[buffer.name]), buffer.layout)


def _check(model: CompiledModel) -> None:
    """FormatError unless every step finds what it reads and the steps make what the model gives back, in surfaces and
    shapes everybody agrees about."""
    held = [state.port for state in model.states]
    ports = (*model.inputs, *model.outputs, *held)
    surfaces = {port.name: port.layout for port in ports}
    shapes = {port.name: port.shape for port in ports}
    known = {port.name for port in (*model.inputs, *held)}
    for step in model.steps:
        if isinstance(step, HostStep):
            _check_host_step(step, known, shapes)
        else:
            _check_program(model.programs[step.program], known, surfaces)
    for name, layout in surfaces.items():
        if name in shapes and prod(shapes[name]) != prod(layout.shape):
            _agree(name, layout.shape, shapes[name])
    _require(known, [port.name for port in model.outputs])
    for state in model.states:
        if state.next is not None:
            _require(known, [state.next])
            _agree(state.next, state.port.layout, surfaces.get(state.next, state.port.layout))
            _agree(state.next, state.port.shape, shapes.get(state.next, state.port.shape))


def _require(known: set[str], names: Sequence[str]) -> None:
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        raise FormatError(f"port {missing!r} has no buffer in the program, or is read before it is made",
                          expected=", ".join(sorted(known)), found=missing)


def _agree(name: str, expected: object, found: object) -> None:
    if expected != found:
        raise FormatError(f"port {name!r} lies otherwise in the program", expected=expected, found=found)


def _read_step(step: Mapping[str, Any], graphs: Graphs, count: int) -> ProgramStep | HostStep:
    if "host" in step:
        return HostStep.of(graphs(str(step["host"])), [str(name) for name in step["operands"]],
                           [str(name) for name in step["results"]])
    number = int(step["program"])
    if not 0 <= number < count:
        raise FormatError("a step names a program that is not there", expected=f"0 to {count - 1}", found=number)
    return ProgramStep(number)


def _write_port(port: Port) -> Document:
    layout = port.layout
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape),
            "layout": {"shape": list(layout.shape), "strides": list(layout.strides), "dtype": str(layout.dtype),
                       "interleave": layout.interleave}}


def _read_port(port: Mapping[str, Any]) -> Port:
    layout = port["layout"]
    shape, strides = (tuple(int(v) for v in layout[key]) for key in ("shape", "strides"))
    logical = tuple(int(v) for v in port["shape"])
    least = min(*shape, *logical, int(layout["interleave"]))
    if len(shape) != 5 or len(strides) != 5 or least < 1:
        raise ValueError(f"port {port['name']!r} has no proper layout")
    if port["dtype"] not in NUMPY_TYPES:
        raise ValueError(f"port {port['name']!r} has dtype {port['dtype']!r}")
    surface = Layout(shape, strides, DType(layout["dtype"]), int(layout["interleave"]))
    return Port(str(port["name"]), logical, str(port["dtype"]), surface)
