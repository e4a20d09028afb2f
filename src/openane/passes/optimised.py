"""Rewrites that make programs faster and no other way to compute the same: none at level 0."""

from __future__ import annotations

from openane.graph import Graph
from openane.ops.optimisation import choices_of, level_of
from openane.passes.dead_code import remove_dead_code
from openane.passes.fold_constants import fold_constants
from openane.passes.in_strips import in_strips
from openane.passes.merge_movement import merge_movement
from openane.passes.remove_identities import remove_identities


def optimised(graph: Graph) -> Graph:
    """The graph by the choices of its metadata, or its level."""
    if not level_of(graph):
        return graph
    changed = in_strips(graph, choices_of(graph))
    return graph if changed is graph else remove_dead_code(fold_constants(remove_identities(merge_movement(changed))))
