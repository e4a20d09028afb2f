"""What a stored weight costs: errors of the weight itself, of its layer's results and of the model's, on samples.

Everything is computed by the operations' references in fp32, the model as it is and with other weights: errors are
those of the weights' forms alone. All are relative: the root of the summed squares of differences, by that of the
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Value, with_data
from openane.ops.evaluate import evaluate_node, evaluate_together, widened
from openane.quantization.forms import StoredWeight
from openane.quantization.layers import Layer
from openane.quantization.rewrite import with_bias

Sample = Mapping[str, np.ndarray]
Stored = Sequence[tuple[Layer, StoredWeight]]


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """Root of the summed squares of differences by that of `wanted`; what `found` alone has by 1 where `wanted` is 0.
    Infinite where one is not finite and the other is."""
    difference, size = _squares(found, wanted)
    return _root(difference, size)


def _squares(found: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Summed squares of differences, and of `wanted`; where both are the same infinity, nothing."""
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    with np.errstate(all="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, a - b)
    difference = np.where(np.isnan(difference), np.inf, difference)
    held = b[np.isfinite(b)]
    return float(difference @ difference), float(held @ held)


def _root(difference: float, size: float) -> float:
    return float(np.sqrt(difference / size if size else difference))


def layer_errors(graph: Graph, samples: Sequence[Sample], candidates: Mapping[int, Sequence[StoredWeight]]
                 ) -> tuple[dict[tuple[int, str], float], list[dict[str, np.ndarray]]]:
    """Errors of layers' results by (id of the weight, form), each layer alone with a stored weight and what the model
    itself hands it; and the model's outputs for every sample. `candidates` are by id of the weight they stand for."""
    sums: dict[tuple[int, str], list[float]] = {}

    def seen(node: Node, several: Sequence[Mapping[int, np.ndarray]]) -> None:
        for value in node.values():
            for stored in candidates.get(id(value), ()):
                made = widened(_instead(node, value, stored))
                total = sums.setdefault((id(value), stored.form), [0.0, 0.0])
                for arrays in several:
                    for array, result in zip(evaluate_node(made, arrays), node.outputs, strict=True):
                        for place, square in enumerate(_squares(np.asarray(array), arrays[id(result)])):
                            total[place] += square

    outputs = evaluate_together(graph, samples, seen) if samples else []
    return {key: _root(*total) for key, total in sums.items()}, outputs


def _instead(node: Node, value: Value, stored: StoredWeight) -> Node:
    """The node with what a stored weight gives back in place of a constant."""
    other = with_data(value, stored.array)
    made = node if stored.bias is None else with_bias(node, {id(value): stored.bias})
    return replace(made, operands={name: other if operand is value else operand
                                   for name, operand in made.operands.items()})


def outputs_of(graph: Graph, samples: Sequence[Sample]) -> list[dict[str, np.ndarray]]:
    """The outputs for every sample."""
    return evaluate_together(graph, samples, lambda node, several: None) if samples else []


def output_errors(found: Sequence[Mapping[str, np.ndarray]], wanted: Sequence[Mapping[str, np.ndarray]]
                  ) -> dict[str, float]:
    """The error of every output, over all samples: of integers and booleans, the share that differs."""
    errors: dict[str, float] = {}
    for name, first in (wanted[0] if wanted else {}).items():
        pairs = [(np.asarray(a[name]), np.asarray(b[name])) for a, b in zip(found, wanted, strict=True)]
        if first.dtype.kind == "f":
            squares = [_squares(a, b) for a, b in pairs]
            errors[name] = _root(sum(each[0] for each in squares), sum(each[1] for each in squares))
        else:
            errors[name] = sum(int(np.count_nonzero(a != b)) for a, b in pairs) / max(sum(a.size for a, _ in pairs), 1)
    return errors
