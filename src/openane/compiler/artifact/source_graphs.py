"""Graphs in a bundle: several functions in one MIL program, constants that are equal stored once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from openane.compiler.artifact.stated_digits import DIGITS, with_digits
from openane.errors import FormatError, GraphError
from openane.formats.blob import read_blob
from openane.formats.sealed import AbsentFile
from openane.graph import Graph, Value, substituted
from openane.program import Constants
from openane.record_classes import dataclass

FUNCTIONS = "model.mil"
WEIGHTS = "weights/weight.bin"
OPSET = "ios18"

Graphs = Callable[[str], Graph]
"""A function of a bundle by its name. FormatError when it is not there."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a manifest says of a function's graph: names of its inputs (states among them) and outputs, metadata."""

    arguments: Sequence[str]
    results: Sequence[str]
    metadata: Mapping[str, str]


def join_graphs(graphs: Sequence[Graph]) -> dict[str, bytes]:
    """The files of one MIL program with `graphs` as functions. No files for no graphs.

    What the program states once for all functions is the first graph's: see `named`.
    """
    if not graphs:
        return {}
    from openane.graph.mil.printer import print_program
    from openane.graph.mil.unbuild import to_program

    programs = [to_program(graph, OPSET) for graph in graphs]
    whole = programs[0]
    for program in programs[1:]:
        whole.information = program.information | whole.information
    whole.functions = [function for program in programs for function in program.functions]
    text, weights = print_program(whole, once=len(graphs) > 1)
    return {FUNCTIONS: text.encode()} | ({WEIGHTS: weights} if weights else {})


def read_graphs(read: Callable[[str], Constants], functions: Sequence[Mapping[str, Any]]) -> Graphs:
    """The functions of a program, read when the first is asked for. `functions` are the manifest's: they name ports and
    metadata where several functions had to share what MIL states once."""
    stated = {str(function["name"]): Stated([str(name) for name in function["arguments"]],
                                            [str(name) for name in function["results"]],
                                            {str(key): str(text) for key, text in function["metadata"].items()})
              for function in functions}

    @cache
    def files() -> tuple[str, Callable[[str, int], tuple[str, memoryview]]]:
        try:
            text = bytes(read(FUNCTIONS)).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{FUNCTIONS} is not UTF-8 text", offset=error.start) from None
        return text, lambda path, offset: read_blob(weights(), offset)

    @cache
    def weights() -> Constants:
        return read(WEIGHTS)

    @cache
    def find(name: str) -> Graph:
        from openane.graph.mil import parse_mil

        graph = parse_mil(*files(), function=name)
        with suppress(AbsentFile, KeyError):  # most models have no digits beyond fp16
            graph = with_digits(graph, name, read(DIGITS))
        return named(graph, stated[name]) if name in stated else graph

    return find


def named(graph: Graph, stated: Stated) -> Graph:
    """The graph with its ports called, and its metadata, as the manifest says. GraphError when it has other ports."""
    names = stated.arguments, stated.results
    if [len(side) for side in names] != [len(graph.inputs), len(graph.outputs)]:
        raise GraphError(f"function {graph.name!r} has other ports than the manifest states")
    metadata = stated.metadata
    changed: dict[int, Value] = {}
    for side, values in zip(names, (graph.inputs, graph.outputs), strict=True):
        changed |= {id(value): replace(value, name=name) for name, value in zip(side, values, strict=True)
                    if name != value.name}
    if not changed:
        return replace(graph, metadata=metadata)
    nodes = [substituted(node, changed) for node in graph.nodes]
    nodes = [replace(node, outputs=tuple(changed.get(id(v), v) for v in node.outputs)) for node in nodes]
    inputs, outputs = (tuple(changed.get(id(v), v) for v in side) for side in (graph.inputs, graph.outputs))
    return Graph(inputs, tuple(nodes), outputs, graph.name, metadata)
