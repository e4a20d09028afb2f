"""Finds every tensor between the operations of a model while its programs run, for people who watch the tasks.

A tensor has no address of its own: placement lets buffers share memory and L2, and hands some results from task to
task. Before placement, however, every buffer is a virtual one that nothing else uses. Whoever allocates these virtual
buffers, and after each task copies what it wrote into them, therefore finds every tensor that is ever stored. Tensors
inside a task (fused operations) and copies that were found needless are not stored, and not found. The programs are
exactly those that `compile` makes.
"""

from __future__ import annotations

from collections.abc import Mapping

from openane.chips import Limits, get_chip
from openane.compiler.buffers.storage import VirtualBuffers
from openane.compiler.partition.hosting import AllowHost
from openane.compiler.partition.planning import plan
from openane.compiler.partition.program import CompiledPiece
from openane.compiler.schedule.pipeline import carried_out
from openane.engine import Access
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.lowering import Tensor
from openane.program import Program
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the tensors of one engine program are: for each task the place of its result among the virtual buffers, the
    sizes of those in bytes, the tensor of each value that is stored (by id of the value), and the tasks of each node
    (by id of the node)."""

    program: Program
    results: tuple[Access, ...]
    sizes: Mapping[int, int]
    tensors: Mapping[int, Tensor]
    tasks: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Intermediates:
    """The graph as the compiler lowers it, after all passes, its engine programs, and the nodes the host computes (by
    id)."""

    graph: Graph
    programs: tuple[Whereabouts, ...]
    hosted: frozenset[int] = frozenset()


def intermediates(graph: Graph, target: str, allow_host: AllowHost = False) -> Intermediates:
    """Compiles `graph` once more and says where its tensors are. Errors as for `compile`."""
    made = plan(graph, target, allow_host)
    limits = get_chip(target).limits
    return Intermediates(made.graph, tuple(_whereabouts(piece, limits) for piece in made.pieces),
                         frozenset(made.hosted))


def _whereabouts(piece: CompiledPiece, limits: Limits) -> Whereabouts:
    lowered = piece.lowered
    blocks = VirtualBuffers(lowered.blocks)
    steps = carried_out(lowered.operations, blocks, limits)
    if [number for number, _ in steps] != list(piece.origins):
        raise UnsupportedError(piece.program.name, "its tasks cannot be told apart by the operations they come from")
    tasks: dict[int, list[int]] = {}
    for task, number in enumerate(piece.origins):
        node = lowered.emitted[number].node
        if node is not None:
            tasks.setdefault(id(node), []).append(task)
    return Whereabouts(piece.program, tuple(operation.result for _, operation in steps),
                       {slot: block.size for slot, block in blocks.table.items()}, lowered.tensors,
                       {key: tuple(numbers) for key, numbers in tasks.items()})
