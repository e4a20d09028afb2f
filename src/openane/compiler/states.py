"""The reference of a graph with states; see `graph.states` for what a state is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Graph, numpy_type
from openane.graph.states import Stateless, without_states
from openane.ops.evaluate import evaluate

__all__ = ["Stateless", "reference", "without_states"]


def reference(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph by its operations' references, its states zero before. GraphError as for `evaluate`."""
    plain = without_states(graph)
    zeros = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states}
    found = evaluate(plain.graph, zeros | dict(inputs))
    return {value.name: found[value.name] for value in graph.outputs}
