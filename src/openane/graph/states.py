"""States of a model: tensors that persist between runs, as MIL's `read_state` and `write_state` know them.

Reading a state gives its contents, writing replaces them, in the order of the program. Without states, a state is an
input, and what was written last is an output whose contents take the input's place after a run: no operation of a run
sees a half-written state, and a run that fails leaves the states as they were.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from openane.errors import GraphError
from openane.graph.graph import Graph, Node, Value, copy_of, substituted
from openane.record_classes import dataclass

MARK = "state:"
"""Key of a graph's metadata that says an input is a state: `state:NAME`."""
READ = "read_state"
WRITERS = ("write_state", "coreml_update_state")
"""The first has no result, that of the second is what was written."""


@dataclass(frozen=True, slots=True)
class Stateless:
    """A graph whose states are inputs, and by the name of each state that is written the name of the output that holds
    its next contents."""

    graph: Graph
    states: tuple[Value, ...]
    next: Mapping[str, str]


def _without_marks(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in metadata.items() if not key.startswith(MARK)}


def _unused(name: str, names: Container[str]) -> str:
    """The name, or the shortest that begins with it, that is not among `names`."""
    while name in names:
        name += "_"
    return name


def without_states(graph: Graph) -> Stateless:
    """The graph with its states as inputs and outputs. GraphError when a state is used as a tensor, or a tensor as a
    state."""
    handles = [value for value in graph.inputs if f"{MARK}{value.name}" in graph.metadata]
    if not handles and not any(node.op in (READ, *WRITERS) for node in graph.nodes):
        return Stateless(graph, (), {})
    contents = {id(handle): replace(handle) for handle in handles}
    now = dict(contents)
    nodes = _functional(graph, now)
    names = {value.name for each in (graph.inputs, *(node.outputs for node in nodes)) for value in each}
    outputs = list(graph.outputs)
    following: dict[str, str] = {}
    for handle in handles:
        if now[id(handle)] is not contents[id(handle)]:
            name = _unused(f"{handle.name}_next", names)
            nodes.append(copy_of(now[id(handle)], Value(name, handle.type)))
            outputs.append(nodes[-1].output)
            following[handle.name] = name
    inputs = tuple(contents.get(id(value), value) for value in graph.inputs)
    plain = Graph(inputs, tuple(nodes), tuple(outputs), graph.name, _without_marks(graph.metadata))
    plain.verify()
    return Stateless(plain, tuple(contents.values()), following)


def _functional(graph: Graph, now: dict[int, Value]) -> list[Node]:
    """The nodes, reads and writes replaced by what they stand for; `now` has each state's contents by id(handle)."""
    seen: dict[int, Value] = {}
    outputs = {id(value) for value in graph.outputs}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = substituted(old, seen)
        if node.op != READ and node.op not in WRITERS:
            wrong = next((value for value in node.values() if id(value) in now), None)
            if wrong is not None:
                raise GraphError(f"{node.label} uses the state {wrong.name!r} as a tensor; read it with {READ}")
            nodes.append(node)
            continue
        handle, data = _operands(node, now)
        now[id(handle)] = now[id(handle)] if data is None else data
        for value in node.outputs:
            seen[id(value)] = now[id(handle)]
            if id(value) in outputs:  # an output keeps its name
                nodes.append(copy_of(now[id(handle)], value))
                seen[id(value)] = value
    return nodes


def _operands(node: Node, now: Mapping[int, Value]) -> tuple[Value, Value | None]:
    """The state a node reads or writes, and what it writes."""
    handles = [value for value in node.values() if id(value) in now]
    data = [value for value in node.values() if id(value) not in now]
    if len(handles) != 1 or len(data) != (node.op in WRITERS):
        raise GraphError(f"{node.label} takes one state{' and the tensor to put there' if node.op in WRITERS else ''}, "
                         f"not {len(handles)} and {len(data)}")
    if data and data[0].type != handles[0].type:
        raise GraphError(f"{node.label} puts {data[0].type} into the state {handles[0].name!r} of {handles[0].type}")
    return handles[0], data[0] if data else None



def with_states(graph: Graph, following: Mapping[str, str]) -> Graph:
    """The graph with inputs as states: `following` has, by the name of each, that of the output that takes its place
    after a run. Those outputs are the model's own from then on. GraphError when one is missing, or of another type."""
    inputs = {value.name: value for value in graph.inputs}
    outputs = {value.name: value for value in graph.outputs}
    reads: list[Node] = []
    writes: list[Node] = []
    now: dict[int, Value] = {}
    handles = dict(inputs)
    for name, made in following.items():
        if name not in inputs or made not in outputs:
            raise GraphError(f"the state {name!r}, next {made!r}, is no input and output of the graph; it has the "
                             f"inputs {', '.join(inputs)} and the outputs {', '.join(outputs)}")
        if inputs[name].type != outputs[made].type:
            raise GraphError(f"the state {name!r} is {inputs[name].type}, its next contents {made!r} "
                             f"{outputs[made].type}")
        handle = handles[name] = replace(inputs[name])
        contents = now[id(inputs[name])] = Value(f"{name}_contents", handle.type)
        reads.append(Node(READ, {"input": handle}, (contents,), contents.name))
        writes.append(Node(WRITERS[0], {"input": handle, "data": outputs[made]}, (), f"{name}_written"))
    nodes = (*reads, *(substituted(node, now) for node in graph.nodes), *writes)
    left = tuple(value for name, value in outputs.items() if name not in following.values())
    marks = {f"{MARK}{name}": "" for name in following}
    made_graph = Graph(tuple(handles.values()), nodes, left, graph.name, {**graph.metadata, **marks})
    made_graph.verify()
    return made_graph
