"""The drawing of a graph: every node below what it reads, nothing on top of anything else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from openane.report.html.layout import HEIGHT, WIDTH, layered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    nodes = draw(st.integers(1, 14))
    pairs = [(a, b) for b in range(nodes) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    return nodes, edges


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_edges_lead_down_and_nodes_do_not_overlap(graph: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    layout = layered(nodes, edges)
    assert len(layout.places) == nodes
    assert len(layout.lines) == len(edges)
    for (a, b), corners in zip(edges, layout.lines, strict=True):
        heights = [layout.places[a][1], *(y for _, y in corners), layout.places[b][1]]
        assert all(upper < lower for upper, lower in pairwise(heights))
    for first in range(nodes):
        x, y = layout.places[first]
        assert WIDTH / 2 - 1e-6 <= x <= layout.width - WIDTH / 2 + 1e-6
        assert 0 < y < layout.height
        for second in range(first):
            other = layout.places[second]
            assert abs(other[1] - y) >= HEIGHT - 1e-6 or abs(other[0] - x) >= WIDTH - 1e-6


def test_a_chain_is_a_straight_line() -> None:
    layout = layered(4, [(0, 1), (1, 2), (2, 3)])
    assert len({x for x, _ in layout.places}) == 1
    assert layout.height == 4 * HEIGHT


def test_a_cycle_and_an_empty_graph_are_drawn() -> None:
    assert len(layered(3, [(0, 1), (1, 2), (2, 0)]).places) == 3
    assert layered(0, []).places == ()
