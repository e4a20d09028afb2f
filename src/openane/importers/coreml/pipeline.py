"""Pipelines: models of which each reads what those before it made, as one graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from openane.errors import GraphError, UnsupportedError
from openane.formats.protobuf import Message
from openane.graph import Graph, Node, Value
from openane.graph.graph import copy_of, substituted
from openane.importers.kept_boxes import suppressed
from openane.importers.shapes import only_inputs
from openane.ops.build import GraphBuilder
from openane.ops.rewriter import Rewriter, fresh_name
from openane.record_classes import dataclass

PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
PORT_KEYS = ("dtype:", "image:", "state:")
"""Metadata of ports, by name."""
SUPPRESSION = "nonMaximumSuppression"

Shapes = Mapping[str, Sequence[int]]
Read = Callable[[Message, Shapes], Graph]
"""The graph of a model within the pipeline, with shapes for its inputs."""


@dataclass(slots=True)
class _Joined:
    """The graph so far: `known` has the value of every feature, the model's inputs and what its parts made."""

    known: dict[str, Value] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    metadata: dict[str, str] = field(default_factory=dict)

    def take(self, graph: Graph, part: str) -> None:
        """Puts a part's graph behind what there is."""
        seen: dict[int, Value] = {}
        for value in graph.inputs:
            made = self.known.get(value.name)
            if made is not None:
                seen[id(value)] = self.fitted(made, value, part)
                continue
            self.names.add(value.name)
            self.inputs.append(value)
            self.known[value.name] = value
        for node in graph.nodes:
            outputs = tuple(Value(fresh_name(value.name, self.names), value.type) for value in node.outputs)
            moved = substituted(node, seen)
            seen.update((id(old), new) for old, new in zip(node.outputs, outputs, strict=True))
            self.nodes.append(Node(moved.op, moved.operands, outputs, moved.name, moved.source))
        self.known.update((value.name, seen.get(id(value), value)) for value in graph.outputs)
        self.metadata.update(graph.metadata)

    def fitted(self, made: Value, wanted: Value, part: str) -> Value:
        """What an earlier part made, as a later one reads it. GraphError when the numbers of elements differ."""
        if made.type.elements != wanted.type.elements:
            raise GraphError(f"{part} of the pipeline: its input {wanted.name!r} is {wanted.type}, and {made.type} is "
                             "made before it")
        rewriter = Rewriter(Node("pipeline", {}, (), wanted.name), self.names, f"Core ML feature {wanted.name!r}")
        if made.dtype != wanted.dtype:
            made = rewriter.single("cast", fresh_name(f"{wanted.name}_cast", self.names), x=made, dtype=wanted.dtype)
        if made.shape != wanted.shape:
            made = rewriter.single("reshape", fresh_name(f"{wanted.name}_shaped", self.names), x=made,
                                   shape=wanted.shape)
        self.nodes += rewriter.made
        return made

    def finish(self, wanted: Sequence[str]) -> Graph:
        """The graph with the features that are `wanted` as outputs, under their names."""
        outputs = []
        taken = {value.name for value in self.inputs}
        for name in wanted:
            value = self.known[name]
            if value.name != name and name not in taken:
                self.rename(name)
                copied = Value(name, value.type)
                self.nodes.append(copy_of(value, copied, f"Core ML output {name!r}"))
                value = copied
            outputs.append(value)
        ports = {value.name for value in (*self.inputs, *outputs)}
        metadata = {key: text for key, text in self.metadata.items()
                    if not key.startswith(PORT_KEYS) or key.split(":", 1)[1] in ports}
        graph = Graph(tuple(self.inputs), tuple(self.nodes), tuple(outputs), metadata=metadata)
        graph.verify()
        return graph

    def rename(self, name: str) -> None:
        """Takes a name from the value within the graph that has it."""
        old = next((value for node in self.nodes for value in node.outputs if value.name == name), None)
        if old is None:
            return
        new = Value(fresh_name(name, self.names), old.type)
        seen = {id(old): new}
        self.nodes = [Node(node.op, substituted(node, seen).operands, tuple(seen.get(id(value), value)
                           for value in node.outputs), node.name, node.source) for node in self.nodes]
        self.known = {key: seen.get(id(value), value) for key, value in self.known.items()}


def parts_of(model: Message, kind: str) -> dict[str, Message]:
    """The models of a pipeline by their names; those without one are called by their number, from 0."""
    stored = getattr(model, kind)
    stored = stored if kind == PIPELINES[0] else stored.pipeline
    names = list(stored.names)
    return {names[place] if place < len(names) and names[place] else str(place): part
            for place, part in enumerate(stored.models)}


def read_pipeline(model: Message, kind: str, shapes: Shapes, part: str | None, read: Read) -> Graph:
    """The graph of a pipeline, or of one of its parts alone. GraphError for a part there is not and for features that
    do not fit; UnsupportedError naming the part that is neither a network nor a choice among boxes."""
    parts = parts_of(model, kind)
    if not parts:
        raise GraphError("the pipeline has no models")
    if part not in (None, "main"):
        return read(_only(parts, str(part)), shapes)
    joined = _Joined()
    only_inputs(shapes, [feature.name for feature in model.description.input])
    for name, each in parts.items():
        inputs = {feature.name for feature in each.description.input} - set(joined.known)
        given = {key: shape for key, shape in shapes.items() if key in inputs}
        graph = _boxes(each, joined.known) if SUPPRESSION in each else _read(each, name, parts, given, read)
        joined.take(graph, f"model {name}")
    wanted = [feature.name for feature in model.description.output if feature.name in joined.known]
    return joined.finish(wanted or [value.name for value in graph.outputs])


def _only(parts: Mapping[str, Message], part: str) -> Message:
    if part not in parts:
        raise GraphError(f"the pipeline has no model {part!r}; it has {', '.join(parts)}")
    return parts[part]


def _read(each: Message, name: str, parts: Mapping[str, Message], shapes: Shapes, read: Read) -> Graph:
    try:
        return read(each, shapes)
    except UnsupportedError as error:
        others = ", ".join(other for other in parts if other != name)
        raise UnsupportedError(f"model {name} of the pipeline", str(error).splitlines()[0],
                               remedy=f"its other models alone: --function NAME, of {others}; in Python "
                                      "load_graph(path, function=NAME)") from None


def _boxes(model: Message, known: Mapping[str, Value]) -> Graph:
    """The choice among boxes behind a detector: [count, classes] of confidence and [count, 4] of coordinates, as many
    rows as there are boxes; those behind the boxes that are kept hold zeros."""
    stated = getattr(model, SUPPRESSION)
    builder = GraphBuilder()
    found: list[Value] = []
    for name, width in ((stated.coordinatesInputFeatureName, 4), (stated.confidenceInputFeatureName, 0)):
        value = known.get(name)
        if value is None or value.type.elements % 4 or (found and value.type.elements % found[0].shape[1]):
            raise GraphError(f"{SUPPRESSION}: its input {name!r} "
                             f"{'is made by no model before it' if value is None else f'is {value.type}'}")
        count = value.type.elements // width if width else found[0].shape[1]
        given = builder.input(name, value.dtype, value.shape)
        found.append(builder.single("reshape", x=given, shape=[1, count, value.type.elements // count]))
    boxes, scores = found
    kept = suppressed(builder, boxes, scores, boxes.shape[1], stated.iouThreshold, stated.confidenceThreshold,
                      same=stated.pickTop.perClass)
    rows = {stated.confidenceOutputFeatureName: kept.scores, stated.coordinatesOutputFeatureName: kept.coordinates}
    return builder.finish({name: builder.single("reshape", x=value, shape=value.shape[1:])
                           for name, value in rows.items()})
