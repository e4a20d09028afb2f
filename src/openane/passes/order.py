"""The order of the passes, and why."""

from __future__ import annotations

from collections.abc import Callable

from openane.graph import Graph
from openane.passes.dead_code import remove_dead_code
from openane.passes.fold_affine import fold_affine
from openane.passes.fold_constants import fold_constants
from openane.passes.remove_identities import remove_identities
from openane.passes.sink_reshapes import sink_reshapes

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_constants,      # first: later passes look for constant operands
    remove_identities,   # before patterns of neighbours are matched
    sink_reshapes,       # puts activations next to the products they can be fused with
    fold_affine,         # needs weights and vectors as constants, and neighbours without reshapes between
    fold_constants,      # what became constant by folding
    remove_dead_code,    # last: the others leave unused nodes behind
)


def simplify(graph: Graph) -> Graph:
    """The graph after every pass. GraphError when a pass broke its structure."""
    for rewrite in PASSES:
        graph = rewrite(graph)
    graph.verify()
    return graph
