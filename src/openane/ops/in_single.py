"""Operations of a part of the positions in float32, where references compute in float64, or in more steps: what range
numbers have is seen in a third of the time."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openane.graph import Node
from openane.ops import local_response_norm
from openane.ops.evaluate import evaluate_node
from openane.ops.half_bits import from_half
from openane.ops.operands import Arguments

EPSILON = 1e-5
"""Of norms that state none."""
CUBE = 0.044715
"""Of the approximation of gelu by a tanh, which errs by 5e-4 at most."""

Arrays = Mapping[int, np.ndarray]
Results = tuple[np.ndarray, ...]


def single_batch_norm(node: Node, arrays: Arrays) -> Results:
    """batch_norm of x, some of whose positions are missing."""
    array = arrays[id(node["x"])]
    if array.dtype != np.float32:
        return evaluate_node(node, arrays)
    mean, variance = (from_half(node[name].array()) for name in ("mean", "variance"))
    gamma, beta = (from_half(value.array()) if (value := node.get(name)) is not None else None
                   for name in ("gamma", "beta"))
    gain = 1 / np.sqrt(variance + _epsilon(node))
    gain = gain if gamma is None else np.multiply(gain, gamma, out=gain)
    offset = -mean * gain if beta is None else beta - mean * gain
    shape = (-1, *(1,) * (array.ndim - 2))
    result = array * gain.reshape(shape)
    return (np.add(result, offset.reshape(shape), out=result),)


def _epsilon(node: Node) -> np.float32:
    stated = node.get("epsilon")
    return np.float32(EPSILON if stated is None else stated.array())


def single_response_norm(node: Node, arrays: Arrays) -> Results:
    """local_response_norm of x, some of whose positions are missing."""
    array = arrays[id(node["x"])]
    if array.dtype != np.float32:
        return evaluate_node(node, arrays)
    read = Arguments(node.op, local_response_norm.PARAMETERS, node.operands)
    alpha, beta, k = (read.number(name) for name in ("alpha", "beta", "k"))
    return (local_response_norm.normed(array, size=read.integer("size", 1), alpha=alpha, beta=beta, k=k),)


def single_layer_norm(node: Node, arrays: Arrays) -> Results:
    """layer_norm of x over its last dimension, some of whose rows are missing."""
    array, axes = arrays[id(node["x"])], node.get("axes")
    last = axes is not None and axes.array().tolist() in ([-1], [array.ndim - 1])
    if not last or array.dtype != np.float32 or node.get("scale") is not None:
        return evaluate_node(node, arrays)
    result = array - np.add.reduce(array, axis=-1, keepdims=True) * np.float32(1 / array.shape[-1])
    squares = np.einsum("...i,...i->...", result, result)[..., None] * np.float32(1 / array.shape[-1])
    result /= np.sqrt(squares + _epsilon(node))
    for name, function in (("gamma", np.multiply), ("beta", np.add)):
        if (vector := node.get(name)) is not None:
            function(result, from_half(vector.array()), out=result)
    return (result,)


def single_gelu(node: Node, arrays: Arrays) -> Results:
    """gelu, by a tanh."""
    array, mode = arrays[id(node["x"])], node.get("mode")
    about = mode is None or mode.data != "SIGMOID_APPROXIMATION"
    if array.dtype != np.float32 or not about or set(node.operands) - {"x", "mode"}:
        return evaluate_node(node, arrays)
    result = array * array
    result *= np.float32(CUBE * math.sqrt(2 / math.pi))
    result += np.float32(math.sqrt(2 / math.pi))
    result *= array
    np.tanh(result, out=result)
    result += 1
    result *= array
    result *= np.float32(0.5)
    return (result,)
