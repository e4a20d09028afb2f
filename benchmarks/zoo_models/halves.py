"""What a graph computes when every result is rounded to fp16 and nothing else is: what fp16 itself costs a network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Graph
from openane.ops.evaluate import evaluate_node


def in_halves(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name."""
    known = {id(value): _rounded(inputs[value.name]) for value in graph.inputs}
    for node in graph.nodes:
        known |= {id(value): _rounded(array) for value, array in zip(node.outputs, evaluate_node(node, known),
                                                                    strict=True)}
    return {value.name: known[id(value)] if id(value) in known else value.array() for value in graph.outputs}


def _rounded(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32) if array.dtype.kind == "f" else array
