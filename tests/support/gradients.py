"""Gradients checked: graphs evaluated in float64, and differentiated by central differences beside the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import openane as ane
from openane.errors import GraphError
from openane.graph import Graph, Node, Operand, Value, numpy_type
from openane.ops import Op, get_op
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.operands import default_data, element_type
from openane.training.gradient import gradient, promote

STEP = 1e-3
DIRECTIONS = 5
SETTINGS: dict[str, dict[str, Any]] = {
    "clamped_relu": {"alpha": 0.3, "beta": 1.1}, "clip": {"alpha": -0.6, "beta": 0.9}, "elu": {"alpha": 0.7},
    "leaky_relu": {"alpha": 0.2}, "linear_activation": {"alpha": -1.5, "beta": 0.3}, "inverse": {"epsilon": 0.1},
    "scaled_tanh": {"alpha": 1.3, "beta": 0.6}, "sigmoid_hard": {"alpha": 0.4, "beta": 0.5},
    "threshold": {"alpha": 0.3},
    "thresholded_relu": {"alpha": 0.35}, "log": {"epsilon": 0.25}, "rsqrt": {"epsilon": 0.5},
}
"""Constants of the functions of one tensor that need some."""


def wide(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by the operations' references with all real numbers in float64; casts between them do nothing."""
    arrays = {id(value): _wide(inputs[value.name]) for value in graph.inputs}

    def data(operand: Operand, variadic: bool) -> Any:
        if isinstance(operand, tuple):
            return tuple(data(value, False) for value in operand)
        array = _wide(operand.data) if operand.constant else arrays[id(operand)]
        return (array,) if variadic else array

    for node in graph.nodes:
        op = get_op(node.op)
        dtype = element_type(op.parameters, node.operands)
        keywords = {p.name: data(node.operands[p.name], p.variadic) if p.name in node.operands
                    else _wide(default_data(op.name, p, dtype)) for p in op.parameters}
        results = (keywords["x"],) if _between_reals(node) else _results(op, keywords)
        for value, array in zip(node.outputs, results, strict=True):
            arrays[id(value)] = _wide(array)
    return {value.name: _wide(value.data) if value.constant else arrays[id(value)] for value in graph.outputs}


def _between_reals(node: Node) -> bool:
    """Whether a node casts real numbers to real numbers."""
    return node.op == "cast" and {node["x"].dtype, node.output.dtype} <= {"fp16", "fp32"}


def _results(op: Op, keywords: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """The reference's results; in float32 where it looks at element types, which float64 is none of."""
    with np.errstate(all="ignore"):
        try:
            return op.reference(**keywords)
        except GraphError:
            return op.reference(**{name: _narrow(data) for name, data in keywords.items()})


def _narrow(data: Any) -> Any:
    if isinstance(data, tuple):
        return tuple(map(_narrow, data))
    return data.astype(np.float32) if isinstance(data, np.ndarray) and data.dtype.kind == "f" else data


def _wide(data: Any) -> Any:
    return data.astype(np.float64) if isinstance(data, np.ndarray) and data.dtype.kind == "f" else data


def directions(array: np.ndarray) -> list[np.ndarray]:
    """Each element of a short array on its own; of a long one random directions."""
    if array.size <= DIRECTIONS:
        return [unit.reshape(array.shape) for unit in np.eye(array.size)]
    rng = np.random.default_rng(array.size)
    return [rng.normal(size=array.shape) for _ in range(DIRECTIONS)]


def slope(graph: Graph, inputs: Mapping[str, np.ndarray], name: str, direction: np.ndarray) -> float:
    """The derivative of the loss when inputs[name] moves along `direction`, by central differences."""
    sides = [float(wide(graph, {**inputs, name: inputs[name] + sign * STEP * direction})["loss"].reshape(()))
             for sign in (1, -1)]
    return (sides[0] - sides[1]) / (2 * STEP)


Made = Callable[[GraphBuilder, dict[str, Value]], Value | tuple[Value, ...]]


def summed(inputs: Mapping[str, np.ndarray], made: Made, dtype: str = "fp32",
           weights: Mapping[str, np.ndarray] | None = None) -> Graph:
    """A graph whose loss is the sum of what `made` gives of inputs of these shapes and of constants `weights`, each
    element times a constant between 0.25 and 1."""
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    values = {name: builder.input(name, dtype, array.shape) for name, array in inputs.items()}
    for name, array in (weights or {}).items():
        values[name] = builder.constant(array.astype(numpy_type(dtype)), name)
    results = made(builder, values)
    terms = []
    for value in results if isinstance(results, tuple) else (results,):
        weighted = builder.single("mul", x=value, y=rng.uniform(0.25, 1, value.shape))
        terms.append(builder.single("reduce_sum", x=weighted) if value.type.rank else weighted)
    total = terms[0]
    for term in terms[1:]:
        total = builder.single("add", x=total, y=term)
    return builder.finish({"loss": total})


def hold(inputs: Mapping[str, np.ndarray], made: Made, weights: Mapping[str, np.ndarray] | None = None,
         forms: Sequence[bool] = (True, False), tolerance: float = 2e-3) -> None:
    """The gradients by every input and every one of the constants `weights` are those by central differences, within
    `tolerance` of the gradient's norm; `forms` says whether operations are written for weights at run time."""
    graph = summed(inputs, made, weights=weights)
    names, values = [*inputs, *(weights or {})], {**inputs, **(weights or {})}
    plain, _ = promote(graph, list(weights or {}), runtime=False)
    lines = {name: [(direction, slope(plain, values, name, direction)) for direction in directions(values[name])]
             for name in names}
    for runtime in forms if weights else (True,):
        found = wide(gradient(graph, "loss", names, runtime=runtime), values)
        for name in names:
            ours = found[f"gradient_{name}"]
            bound = tolerance * max(1.0, np.linalg.norm(ours))
            for direction, expected in lines[name]:
                got = float((ours * direction).sum())
                assert abs(got - expected) <= bound, f"{name}: {got} is not {expected}"


def hold_on_engine(inputs: Mapping[str, np.ndarray], made: Made, weights: Mapping[str, np.ndarray] | None = None,
                   bound: float = 2e-2) -> None:
    """The joint graph, strictly compiled, as it is (so do trainings), within `bound` of each gradient's largest element
    (at least 1)."""
    graph, weights = summed(inputs, made, "fp16", weights), weights or {}
    values = {**inputs, **promote(graph, list(weights))[1]}
    joint = gradient(graph, "loss", list(values))
    model = ane.compile(joint, precision="as-is")
    assert not model.host_operations
    found, wanted = ane.run(model, values), evaluate(joint, values)
    for name in values:
        ours, expected = found[f"gradient_{name}"], wanted[f"gradient_{name}"]
        assert np.abs(ours - expected).max() <= bound * max(1, np.abs(expected).max()), name
