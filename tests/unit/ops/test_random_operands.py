"""Whatever operands an operation is given: either a typed refusal that names it, or the shape rule and the reference
agree on the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openane.errors import GraphError
from openane.graph import NUMPY_TYPES, Graph, Node, TensorType, Value, mil_type
from openane.ops import Op, Parameter, all_ops, result_types
from openane.ops.evaluate import evaluate

WORDS = ["valid", "same", "same_lower", "custom", "EXACT", "SIGMOID_APPROXIMATION", "constant", "reflect", "replicate",
         "fp16", "int32", "bool", "", "nonsense"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, max_side=4)
SQUARE = st.sampled_from([(2, 2), (1, 2, 4), (1, 2, 4, 4), (2, 2, 2, 2), (2,), ()])


@st.composite
def constants(draw: st.DrawFn, kind: str) -> Value:
    """A constant that is more often than not what a parameter of `kind` wants."""
    if draw(st.integers(0, 19)) == 0:
        kind = draw(st.sampled_from(["tensor", "int32", "bool", "string"]))
    if kind == "string":
        return Value("c", TensorType("string", ()), draw(st.sampled_from(WORDS)))
    if kind == "bool":
        return of(np.array(draw(st.booleans())))
    if kind in ("int32", "index"):
        vector = draw(st.lists(st.integers(-2, 4) | st.sampled_from([0, 1, -2 ** 31, 2 ** 31 - 1]), max_size=8))
        return of(np.array(vector[0] if len(vector) == 1 and draw(st.booleans()) else vector, np.int32))
    dtype = draw(st.sampled_from(["fp16", "fp16", "fp16", "fp32", "int32", "bool", "fp64"]))
    return of(np.ones(draw(SQUARE | SHAPES), NUMPY_TYPES[dtype]))


def of(array: np.ndarray) -> Value:
    return Value("c", TensorType(mil_type(array.dtype), array.shape), array)


@st.composite
def operands(draw: st.DrawFn, op: Op) -> dict[str, Any]:
    """Operands for `op`, some left out, some of the wrong kind, shape or value."""
    count = 0

    def value(parameter: Parameter) -> Value:
        nonlocal count
        if parameter.const or draw(st.integers(0, 3)) == 0:
            return draw(constants(parameter.kind))
        count += 1
        dtype = draw(st.sampled_from(["fp16", "fp16", "fp16", "fp32", "int32", "bool"]))
        return Value(f"v{count}", TensorType(dtype, draw(SQUARE | SHAPES)))

    found: dict[str, Any] = {}
    for parameter in op.parameters:
        if draw(st.integers(0, 9)) == 0:
            continue
        single = not parameter.variadic and draw(st.integers(0, 30)) > 0
        found[parameter.name] = (value(parameter) if single
                                 else tuple(value(parameter) for _ in range(draw(st.integers(0, 3)))))
    return found


def flat(given_: dict[str, Any]) -> list[Value]:
    return [v for operand in given_.values() for v in (operand if isinstance(operand, tuple) else (operand,))]


def types_or_refusal(op: Op, given_: dict[str, Any]) -> tuple[TensorType, ...] | str:
    try:
        return result_types(op, given_)
    except GraphError as error:
        return str(error)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(all_ops())))
def test_rule_and_reference_agree_or_refuse(data: Any, name: str) -> None:
    check(all_ops()[name], data.draw(operands(all_ops()[name])))


def check(op: Op, given_: dict[str, Any]) -> None:
    """A refusal that names operation and operand, or results of the types the shape rule promised."""
    types = types_or_refusal(op, given_)
    if isinstance(types, str):
        assert types.startswith(f"{op.name}: operand '")
        return
    if max(type_.elements for type_ in types) > 10 ** 5:
        return
    inputs = tuple(value for value in flat(given_) if not value.constant)
    outputs = tuple(Value(f"out{i}", type_) for i, type_ in enumerate(types))
    graph = Graph(inputs, (Node(op.name, given_, outputs),), outputs)
    arrays = {value.name: np.full(value.shape, value.dtype != "int32", NUMPY_TYPES[value.dtype]) for value in inputs}
    results = evaluate(graph, arrays)
    for value in outputs:
        assert results[value.name].shape == value.shape
        assert mil_type(results[value.name].dtype) == {"fp16": "fp32"}.get(value.dtype, value.dtype)


def ones(*shape: int) -> Value:
    return of(np.ones(shape, np.float16))


def numbers(*values: int) -> Value:
    return of(np.array(values, np.int32))


def word(text: str) -> Value:
    return Value("c", TensorType("string", ()), text)


IMAGE = Value("image", TensorType("fp16", (2, 4, 5, 6)))
POOL = {"x": IMAGE, "kernel_sizes": numbers(2, 3), "strides": numbers(2, 1), "pad_type": word("custom"),
        "pad": numbers(1, 1, 2, 2), "ceil_mode": of(np.array(True))}
LEGAL: dict[str, dict[str, Any]] = {
    "conv": {"x": IMAGE, "weight": ones(2, 2, 3, 2), "bias": ones(2), "strides": numbers(2, 1),
             "pad_type": word("custom"), "pad": numbers(0, 1, 2, 0), "dilations": numbers(1, 2),
             "groups": of(np.array(2, np.int32))},
    "max_pool": POOL,
    "avg_pool": {**POOL, "exclude_padding_from_average": of(np.array(True))},
    "batch_norm": {"x": IMAGE, "mean": ones(4), "variance": ones(4), "gamma": ones(4), "beta": ones(4),
                   "epsilon": ones()},
    "layer_norm": {"x": IMAGE, "axes": numbers(-1, 1), "gamma": ones(4, 6), "beta": ones(4, 6), "epsilon": ones(),
                   "scale": ones()},
    "linear": {"x": IMAGE, "weight": ones(3, 6), "bias": ones(3)},
    "concat": {"values": (IMAGE, ones(2, 4, 1, 6)), "axis": of(np.array(2, np.int32)),
               "interleave": of(np.array(False))},
    "pad": {"x": IMAGE, "pad": numbers(1, 0, 2, 3), "mode": word("reflect"), "constant_val": ones()},
    "transpose": {"x": IMAGE, "perm": numbers(3, 0, 2, 1)},
    "tile": {"x": IMAGE, "reps": numbers(1, 2, 1, 3)},
    "reshape": {"x": IMAGE, "shape": numbers(0, -1, 3, 10)},
}


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(LEGAL)))
def test_one_operand_changed(data: Any, name: str) -> None:
    """From legal operands, one is left out or replaced: the far side of every rule."""
    op, given_ = all_ops()[name], dict(LEGAL[name])
    changed = data.draw(st.sampled_from([None, *op.parameters]))
    if changed is not None:
        replacement = data.draw(st.none() | constants(changed.kind))
        given_.pop(changed.name)
        if replacement is not None:
            given_[changed.name] = replacement
    check(op, given_)
