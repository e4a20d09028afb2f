"""docs/converting.md: what every operation becomes in an ONNX model, found by writing each. `make docs` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.onnx_cases import CASES, drawn, graph_of, takes_inputs
from support.random_operands import TABLE

from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.importers.onnx.writing import STORED, WRITERS, to_onnx
from openane.ops import all_ops

PAGE = Path(__file__).parents[2] / "docs" / "converting.md"
BEGIN, END = "<!-- operators: written by make docs -->\n", "<!-- end of operators -->"
SEEDS = range(12)
REFUSED, CONSTANT = "refused", "a constant"
HELPERS = ("Cast", "Identity", "Reshape", "Transpose")
"""Operators listed for an operation only where they are all it becomes."""


def operators(op: str) -> str:
    """The operators that graphs of the operation alone became, or what else becomes of it."""
    if all_ops()[op].shape_only or (not takes_inputs(all_ops()[op]) and op not in STORED):
        return CONSTANT
    try:
        found = {node.op for graph in _graphs(op) for node in to_onnx(graph)[0].nodes}
    except UnsupportedError:
        return REFUSED
    if not found:
        assert op not in WRITERS, f"no graph shows what {op} becomes: add a case"
        return REFUSED
    return ", ".join(sorted(found.difference(HELPERS) or found))


def _graphs(op: str) -> Iterator[Graph]:
    if op in TABLE:
        yield from (_alone(graph, op) for seed in SEEDS if (graph := drawn(op, seed)) is not None)
    yield from (graph_of(name) for name, (each, _) in CASES.items() if each == op)


def _alone(graph: Graph, op: str) -> Graph:
    """The graph of its one node of this operation."""
    node = next(node for node in graph.nodes if node.op == op)
    inputs = {id(value): value for value in node.values() if not value.constant}
    return Graph(tuple(inputs.values()), (node,), node.outputs)


def written(page: str) -> str:
    """The page with its table as it is found."""
    found = {op: operators(op) for op in all_ops()}
    count = sum(made != REFUSED for made in found.values())
    lines = [f"{count} of {len(found)} operations are written.", "", "| operation | becomes |", "| --- | --- |",
             *(f"| {op} | {made} |" for op, made in found.items())]
    before, rest = page.split(BEGIN)
    return "".join((before, BEGIN, "\n".join(lines), "\n", END, rest.split(END)[1]))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
