"""A compiled model's source graph as the system's own compiler takes it: MIL text, weight files, ports.

On macOS the engine's programs are made by the system: it is given the model, not the tasks this package compiled from
it. States become inputs, and what a run leaves for them outputs; whoever runs the program carries them over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from openane.devices.macos.half_graph import PortNames, halved
from openane.devices.protocol import LoadableModel, ModelPort
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph
from openane.graph.mil import print_mil
from openane.graph.mil.printer import WEIGHT_PATH
from openane.graph.states import without_states
from openane.record_classes import dataclass

DIALECT = "ios18"
DIALECTS = ((15, "ios18"), (14, "ios17"), (13, "ios16"))
"""The newest opset each major version of macOS reads, from the newest version on; "ios15" before those."""


@runtime_checkable
class GraphModel(Protocol):
    """A compiled model that still has the graph it was compiled from."""

    @property
    def graph(self) -> Graph:
        """The graph."""
        ...


@dataclass(frozen=True, slots=True)
class GraphPort:
    """An input or output of a graph program.

    `name` is the model's, `mil` the identifier in the text; `shape` is that of the text: the model's, or [1] for a
    scalar. `dtype` is the model's MIL element type, `element` that of the text, which the runtime takes (fp16, int8,
    uint8, int16, uint16).
    """

    name: str
    mil: str
    shape: tuple[int, ...]
    dtype: str
    element: str


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """What the runtime's compiler is given: MIL text, weight files by the path the text names, and the ports in the
    model's order, states included. `carried` says by the name of a state which output holds its next contents."""

    name: str
    text: str
    weights: Mapping[str, bytes]
    inputs: tuple[GraphPort, ...]
    outputs: tuple[GraphPort, ...]
    carried: Mapping[str, str]


def dialect(version: str) -> str:
    """The opset that macOS `version` ("15.6.1") reads for certain. (inferred from the years of both)"""
    major = version.partition(".")[0]
    number = int(major) if major.isdigit() else 0
    return next((opset for first, opset in DIALECTS if number >= first), "ios15")


def graph_program(model: LoadableModel, opset: str = DIALECT) -> GraphProgram:
    """The graph of a compiled model for the system's compiler.

    UnsupportedError names what the route cannot take: an element type or rank, a name or operation MIL text cannot
    write, a model whose graph is gone.
    """
    if not isinstance(model, GraphModel):
        raise UnsupportedError(f"model {model.name!r}", "it has no graph, and this device compiles graphs",
                               remedy="load the model as it was compiled, or a bundle (.ane)")
    plain = without_states(model.graph)
    made = halved(plain.graph, frozenset((*(value.name for value in plain.states), *plain.next.values())))
    try:
        text, weights = print_mil(made.graph(), opset)
    except GraphError as error:
        raise UnsupportedError(f"model {model.name!r}", f"its graph cannot be written as MIL text: {error}") from None
    declared: dict[str, ModelPort] = {port.name: port for port in (*model.inputs, *model.outputs)}
    declared |= {state.port.name: state.port for state in model.states}
    types = {value.name: value.dtype for value in (*plain.graph.inputs, *plain.graph.outputs)}
    types |= {name: port.dtype for name, port in declared.items()}
    inputs, outputs = (tuple(_port(port, types[port.name]) for port in side) for side in made.ports)
    return GraphProgram(model.name, text, {WEIGHT_PATH: weights} if weights else {}, inputs, outputs, dict(plain.next))


def _port(port: PortNames, dtype: str) -> GraphPort:
    return GraphPort(port.name, port.mil, port.shape, dtype, port.element)
