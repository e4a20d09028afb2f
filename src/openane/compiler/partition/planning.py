"""Which operations run on the engine and which on the host, and the steps that result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openane.compiler.inspect.dump import watched_passes
from openane.compiler.model import Step
from openane.compiler.partition.host_steps import HostStep, Part, partition, piece
from openane.compiler.partition.legality import Broken, broken, broken_composed, refuse
from openane.compiler.partition.program import Context, Segment, computed_outputs, segments
from openane.errors import UnsupportedError
from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.passes.fold_constants import fold_constants
from openane.passes.fold_shapes import fold_shapes
from openane.passes.rewrite import substituted

UNLOWERED = "the operation has no lowering to engine operations"


@dataclass(slots=True)
class Plan:
    """A graph after the passes, why nodes run on the host (by id(node)), the engine programs and all steps."""

    graph: Graph
    hosted: dict[int, str]
    segments: list[Segment] = field(default_factory=list)
    steps: list[Step | HostStep] = field(default_factory=list)


def plan(graph: Graph, context: Context, allow_host: bool) -> Plan:
    """The steps that compute `graph`. UnsupportedError names every operation the engine cannot take, unless
    `allow_host` gives those that a reference can compute to the host."""
    made = _simplified(graph, context, allow_host)
    found = broken(made.graph.nodes, context.chip.limits)
    if not allow_host:
        refuse(found)
    else:
        _give_to_host(made, [*found, *((node, UNLOWERED) for node in made.graph.nodes if _unlowered(node))])
    while True:
        try:
            _build(made, context)
            return made
        except UnsupportedError as error:
            node = next((node for node in made.graph.nodes if node.label == error.operation), None)
            if not allow_host or node is None or id(node) in made.hosted:
                raise
            made.hosted[id(node)] = error.rule


def _simplified(graph: Graph, context: Context, allow_host: bool) -> Plan:
    """The graph after the passes; they do not see the operations that must be kept whole for the host."""
    found = broken_composed(graph, context.chip.limits)
    if not found:
        return Plan(watched_passes(graph, context.watch), {})
    if not allow_host:
        refuse(found)
    names = {node.outputs[0].name: text for node, text in reversed(found)}
    folded = fold_constants(fold_shapes(graph))
    kept = {id(node): names[node.outputs[0].name] for node in folded.nodes if node.outputs[0].name in names}
    changed: dict[int, Value] = {}
    nodes: list[Node] = []
    hosted: dict[int, str] = {}
    for part in partition(folded.nodes, kept):
        if part.host:
            nodes.append(substituted(part.nodes[0], changed))
            hosted[id(nodes[-1])] = kept[id(part.nodes[0])]
        else:
            nodes += _simplified_part(folded, part, changed, context)
    outputs = tuple(changed.get(id(value), value) for value in folded.outputs)
    whole = replace(folded, nodes=tuple(nodes), outputs=outputs)
    whole.verify()
    return Plan(whole, hosted)


def _simplified_part(graph: Graph, part: Part, changed: dict[int, Value], context: Context) -> Sequence[Node]:
    """The nodes of an engine part after the passes; `changed` has values of earlier parts that are others now."""
    whole = piece(graph, part.nodes)
    inputs = tuple(changed.get(id(value), value) for value in whole.inputs)
    simple = watched_passes(replace(whole, inputs=inputs, nodes=tuple(substituted(n, changed) for n in whole.nodes)),
                            context.watch)
    changed.update((id(old), new) for old, new in zip(whole.outputs, simple.outputs, strict=True))
    return simple.nodes


def _give_to_host(made: Plan, found: Broken) -> None:
    for node, text in found:
        made.hosted.setdefault(id(node), text)


def _unlowered(node: Node) -> bool:
    return get_op(node.op).lower is None


def _build(made: Plan, context: Context) -> None:
    """Compiles every engine part. Where there are several, ports keep their own shapes."""
    made.segments, made.steps = [], []
    if not made.hosted:
        parts: list[Part | Graph] = [made.graph]
        shared = context.shared
    else:
        made.graph = computed_outputs(made.graph)
        parts = [part if part.host else piece(made.graph, part.nodes)
                 for part in partition(made.graph.nodes, made.hosted)]
        shared = context.shared | _shared([part for part in parts if isinstance(part, Graph)])
    for part in parts:
        if isinstance(part, Part):
            made.steps.append(HostStep(part.nodes[0]))
            continue
        for segment in segments(part, shared, context):
            made.steps.append(Step(len(made.segments)))
            made.segments.append(segment)


def _shared(pieces: Sequence[Graph]) -> frozenset[str]:
    """Names of ports that several pieces have."""
    counts = Counter(name for each in pieces for name in {value.name for value in (*each.inputs, *each.outputs)})
    return frozenset(name for name, count in counts.items() if count > 1)
