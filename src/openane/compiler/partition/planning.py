"""Which operations run on the engine and which on the host, and the steps that result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from openane.chips import get_chip
from openane.compiler.partition.capacity import Capacity
from openane.compiler.partition.events import PassEnds, PassesBegin, Tell
from openane.compiler.partition.host_steps import GraphPart, partition, piece
from openane.compiler.partition.hosting import AllowHost, HostPolicy, with_far_positions
from openane.compiler.partition.legality import Broken, broken, broken_composed, check_interface, check_known, refuse
from openane.compiler.partition.program import CompiledPiece, CompileSettings, compile_pieces, computed_outputs
from openane.compiler.partition.rounded_inputs import WITH_ALL_DIGITS, with_all_digits, with_rounded_inputs
from openane.compiler.records import HostStep, KnownProgram, ProgramStep
from openane.errors import UnsupportedError
from openane.graph import Graph, Node, Value
from openane.graph.states import Stateless, without_states
from openane.ops import get_op
from openane.passes.fold_constants import fold_constants
from openane.passes.fold_shapes import fold_shapes
from openane.passes.order import simplify
from openane.passes.rewrite import substituted
from openane.record_classes import dataclass

UNLOWERED = "the operation has no lowering to engine operations"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """A graph without its states, the same after the passes, why nodes of that run on the host (by id(node)), the
    engine programs and all steps."""

    source: Stateless
    graph: Graph
    hosted: Mapping[int, str]
    pieces: tuple[CompiledPiece, ...]
    steps: tuple[ProgramStep | HostStep, ...]


def plan(graph: Graph, target: str, allow_host: AllowHost = False, tell: Tell | None = None,
         capacity: Capacity | None = None, known: Sequence[KnownProgram] = ()) -> PartitionPlan:
    """The engine programs and steps that compute `graph`; `tell` hears what happens, programs of `known` are taken
    again where they fit. UnsupportedError names every operation the engine cannot take, but for those that `allow_host`
    gives to the host; other errors as for `api.compile`."""
    policy = HostPolicy.of(allow_host)
    graph.verify()
    chip = get_chip(target)
    source = without_states(graph)
    check_interface(source.graph)
    check_known(source.graph)
    kept = frozenset((*(value.name for value in source.states), *source.next.values()))
    settings = CompileSettings(chip, capacity or Capacity.of(chip.limits), graph.name, kept, tell, known)
    simple, hosted = _simplified(source.graph, settings, policy)
    hosted |= _hosted([node for node in simple.nodes if id(node) not in hosted], settings, policy)
    hosted |= with_far_positions(simple.nodes, hosted)
    hosted |= with_rounded_inputs(simple, hosted, policy)
    while True:
        simple = computed_outputs(simple) if hosted else simple
        try:
            pieces, steps = _compiled(simple, hosted, settings)
            return PartitionPlan(source, simple, hosted, tuple(pieces), tuple(steps))
        except UnsupportedError as error:
            refused = _named(simple, error.operation)
            if refused is None or not policy.allows(refused) or id(refused) in hosted:
                raise
            hosted[id(refused)] = error.rule


def _hosted(nodes: Sequence[Node], settings: CompileSettings, policy: HostPolicy) -> dict[int, str]:
    """Why nodes of those run on the host. UnsupportedError names the others that the engine cannot take."""
    found = broken(nodes, settings.chip.limits)
    if not policy.nothing:
        found += [(node, UNLOWERED) for node in nodes if _unlowered(node)]
    _refuse_others(found, policy)
    return {id(node): text for node, text in reversed(found)}


def _refuse_others(found: Broken, policy: HostPolicy) -> None:
    """UnsupportedError for the nodes that the host may not take either."""
    refuse([(node, text) for node, text in found if not policy.allows(node)])


def _named(graph: Graph, label: str) -> Node | None:
    """The first node called so."""
    return next((node for node in graph.nodes if node.label == label), None)


def _simplified(graph: Graph, settings: CompileSettings, policy: HostPolicy) -> tuple[Graph, dict[int, str]]:
    """The graph after the passes, and why nodes of it run on the host; the passes do not see the operations that must
    be kept whole for it."""
    found = broken_composed(graph, settings.chip.limits)
    if not found:
        return _passed(graph, settings.tell), {}
    _refuse_others(found, policy)
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
            nodes += _simplified_part(folded, part, changed, settings)
    outputs = tuple(changed.get(id(value), value) for value in folded.outputs)
    whole = replace(folded, nodes=tuple(nodes), outputs=outputs)
    whole.verify()
    return whole, hosted


def _simplified_part(graph: Graph, part: GraphPart, changed: dict[int, Value],
                     settings: CompileSettings) -> Sequence[Node]:
    """The nodes of an engine part after the passes; `changed` has values of earlier parts that are others now."""
    whole = piece(graph, part.nodes)
    inputs = tuple(changed.get(id(value), value) for value in whole.inputs)
    simple = _passed(replace(whole, inputs=inputs, nodes=tuple(substituted(n, changed) for n in whole.nodes)),
                     settings.tell)
    changed.update((id(old), new) for old, new in zip(whole.outputs, simple.outputs, strict=True))
    return simple.nodes


def _passed(graph: Graph, tell: Tell | None) -> Graph:
    """The graph after every pass."""
    if tell is None:
        return simplify(graph)
    tell(PassesBegin(graph))
    return simplify(graph, lambda name, made: tell(PassEnds(name, made)))


def _unlowered(node: Node) -> bool:
    return get_op(node.op).lower is None


def _compiled(graph: Graph, hosted: Mapping[int, str],
              settings: CompileSettings) -> tuple[list[CompiledPiece], list[ProgramStep | HostStep]]:
    """Every engine part of the graph compiled. Where there are several, ports keep their own shapes."""
    parts: list[GraphPart | Graph] = [graph]
    shared = settings.shared
    if hosted:
        parts = [part if part.host else piece(graph, part.nodes) for part in partition(graph.nodes, hosted)]
        shared |= _shared([part for part in parts if isinstance(part, Graph)])
    pieces: list[CompiledPiece] = []
    steps: list[ProgramStep | HostStep] = []
    for part in parts:
        if isinstance(part, GraphPart):
            steps.append(HostStep(_stepped(part.nodes[0], hosted)))
            continue
        for made in compile_pieces(part, shared, settings):
            steps.append(ProgramStep(len(pieces)))
            pieces.append(made)
    return pieces, steps


def _shared(pieces: Sequence[Graph]) -> frozenset[str]:
    """Names of ports that several pieces have."""
    counts = Counter(name for each in pieces for name in {value.name for value in (*each.inputs, *each.outputs)})
    return frozenset(name for name, count in counts.items() if count > 1)


def _stepped(node: Node, hosted: Mapping[int, str]) -> Node:
    """A node as the host computes it."""
    return with_all_digits(node) if hosted[id(node)] in WITH_ALL_DIGITS.values() else node
