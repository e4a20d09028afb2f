"""Products whose results are rounded to whole steps of quantisation count these (`ops.whole_sums`)."""

from __future__ import annotations

from openane.graph import Graph
from openane.ops import whole_sums as sums
from openane.passes.rewrite import rebuilt, taken_names


def whole_sums(graph: Graph) -> Graph:
    """The graph with products that count whole steps where it has such that become whole steps."""
    return rebuilt(graph, sums.whole_sums(graph, taken_names(graph)))
