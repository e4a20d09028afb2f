"""Norms of quantised tensors, and such that are quantised again, with less that is rounded to fp16 on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops import arguments
from openane.ops.step_pairs import Known
from openane.ops.weights import numbers
from openane.ops.written_steps import number, stated_of

NORMS = ("instance_norm", "layer_norm")
Sized = Callable[[Value, float], Value]
"""A value's steps as numbers, a step so large."""


def norm_of_steps(node: Node, known: Known, sized: Sized) -> Node:
    """A norm reads steps as numbers that fp16 holds as they are, the size of one a power of two: what it makes of them
    is the same, but for its epsilon. Other nodes as they are."""
    steps = known(node["x"]) if node.op in NORMS else None
    size = 0.0 if steps is None else abs(stated_of(steps, "scale"))
    if not size or node.get("epsilon") is None:
        return node
    power = 2.0 ** round(math.log2(size))
    epsilon = number("epsilon", float(numbers(node["epsilon"])) * (power / size) ** 2)
    return replace(node, operands={**node.operands, "x": sized(node["x"], power), "epsilon": epsilon})


def gain_apart(node: Node, name: str) -> tuple[Node, Node] | None:
    """A layer norm without what it does last, of the name given, and a node that does that: its offset is added, or,
    where it has none, its gain multiplied. None for other nodes."""
    last = next((each for each in ("beta", "gamma") if each in node.operands), None)
    if node.op != "layer_norm" or last is None:
        return None
    result, vector = node.output, node[last]
    axes = arguments(node).axes("axes", result.type.rank)
    shape = tuple(extent if axes is None or d in axes else 1 for d, extent in enumerate(result.shape))
    normal = replace(node, operands={key: value for key, value in node.operands.items() if key != last},
                     outputs=(Value(name, result.type),), name=name)
    spread = Value(vector.name, TensorType(vector.dtype, shape), np.reshape(vector.array(), shape))
    return normal, Node("add" if last == "beta" else "mul", {"x": normal.output, "y": spread}, node.outputs)
