"""What a network computes when every result is rounded to fp16 and nothing else is: what fp16 itself costs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def results_in_halves() -> Any:
    """Inside of this PyTorch rounds the result of every operation to fp16, and computes in fp32."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def rounded(result: Any) -> Any:
        whole = isinstance(result, torch.Tensor) and result.dtype == torch.float32
        return result.copy_(result.half().float()) if whole else result

    class Rounding(TorchDispatchMode):
        """Rounds in place: views of a result are views of rounded numbers."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result if func.is_view else tree_map(rounded, result)

    return Rounding()


def _rounded(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32) if array.dtype.kind == "f" else array
