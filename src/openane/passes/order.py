"""The order of the passes, and why."""

from __future__ import annotations

from collections.abc import Callable

from openane.graph import Graph
from openane.passes.between_transposes import between_transposes
from openane.passes.dead_code import remove_dead_code
from openane.passes.decompose import decompose
from openane.passes.fewer_dimensions import fewer_dimensions
from openane.passes.fold_affine import fold_affine
from openane.passes.fold_constants import fold_constants
from openane.passes.fold_shapes import fold_shapes
from openane.passes.hoist_scales import hoist_scales
from openane.passes.merge_affine import merge_affine
from openane.passes.merge_movement import merge_movement
from openane.passes.norms_into_products import norms_into_products
from openane.passes.optimised import optimised
from openane.passes.quotients import quotients
from openane.passes.recognise import recognise
from openane.passes.remove_identities import remove_identities
from openane.passes.sink_reshapes import sink_reshapes
from openane.passes.whole_sums import whole_sums

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_shapes,         # first: makes constants of what looks computed
    fold_constants,      # later passes look for constant operands
    decompose,           # before anything is matched or fused: the parts take part in all of it
    fewer_dimensions,    # once all that will run is there; its reshapes meet those around them
    between_transposes,  # turns constants, which the next pass computes
    fold_constants,      # what decompositions make of constant operands
    merge_movement,      # neighbours become fewer, and slices of a whole operand identities
    remove_identities,   # before patterns of neighbours are matched
    recognise,           # while the pattern is as it was written
    quotients,           # factors, which the next passes move and fold
    sink_reshapes,       # puts activations next to the products they can be fused with
    hoist_scales,        # brings scales next to the weights that take them up
    fold_affine,         # needs weights and vectors as constants, and neighbours without reshapes between
    merge_affine,        # what no product or convolution could take up
    norms_into_products, # once products are linear nodes with the weights they will have
    whole_sums,          # once weights have all that is folded into them
    fold_constants,      # what became constant by folding
    remove_dead_code,    # the others leave unused nodes behind
    optimised,           # last: what is left is what will run
)


def simplify(graph: Graph, show: Callable[[str, Graph], None] | None = None) -> Graph:
    """The graph after every pass; `show` is given each pass's name and result. GraphError when a pass broke it."""
    for rewrite in PASSES:
        graph = rewrite(graph)
        if show is not None:
            show(rewrite.__name__, graph)
    graph.verify()
    return graph
