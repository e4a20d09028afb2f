"""Random graphs for what writes and reads graphs: any operation, any operands, types that need not fit."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from openane.graph import NUMPY_TYPES, PACKED_BITS, Graph, Node, TensorType, Value
from openane.ops import all_ops

NAMES = st.one_of(st.sampled_from(["x", "tensor", "fp16", "", "9", "/layer/Conv", "a b", "state"]), st.text(max_size=5))
SHAPES = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)
TYPES = st.builds(TensorType, st.sampled_from(["fp16", "int32", "bool", "bf16", "int4"]), SHAPES)
PORTS = st.builds(TensorType, st.sampled_from(["fp16", "fp32", "int32", "int8"]), SHAPES)
OPERATIONS = sorted(all_ops().items()) if hasattr(all_ops(), "items") else [(op.name, op) for op in all_ops()]


def numbers(dtype: str, data: bytes) -> np.ndarray:
    """Any bits as an array of a MIL dtype."""
    flat = np.frombuffer(data, np.uint8)
    array = (flat & 1).astype(bool) if dtype == "bool" else flat.view(NUMPY_TYPES[dtype])
    return array % (1 << PACKED_BITS[dtype] - dtype.startswith("int")) if dtype in PACKED_BITS else array


@st.composite
def constants(draw, name):
    if draw(st.integers(0, 5)) == 0:
        return Value(name, TensorType("string", ()), draw(st.text(max_size=8)))
    dtype = draw(st.sampled_from(sorted(NUMPY_TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = int(np.prod(shape, dtype=int)) * NUMPY_TYPES[dtype].itemsize
    return Value(name, TensorType(dtype, shape), numbers(dtype, draw(st.binary(min_size=size, max_size=size)))
                 .reshape(shape))


@st.composite
def graphs(draw, types=TYPES):
    names = draw(st.lists(NAMES, min_size=9, max_size=9, unique=True))
    inputs = tuple(Value(names.pop(), draw(types)) for _ in range(draw(st.integers(0, 2))))
    known: list[Value] = list(inputs)
    nodes = []
    for number in range(draw(st.integers(0, 3))):
        known += [draw(constants(draw(NAMES))) for _ in range(draw(st.integers(0, 3)))]
        op, description = draw(st.sampled_from(OPERATIONS))
        operands = {}
        for parameter in draw(st.lists(st.sampled_from(description.parameters), unique=True)) if known else []:
            one = st.sampled_from(known)
            operands[parameter.name] = draw(st.lists(one, max_size=3).map(tuple) if parameter.variadic else one)
        results = tuple(Value(names.pop(), draw(types)) for _ in range(draw(st.integers(0, 2))))
        nodes.append(Node(op, operands, results, draw(NAMES), f"node {number}"))
        known += results
    outputs = tuple(draw(st.lists(st.sampled_from(known), max_size=3))) if known else ()
    if types is not TYPES:  # a port has a type of its own
        outputs = tuple(value for value in outputs if value.dtype in ("fp16", "fp32", "int32", "int8"))
    metadata = {f"dtype:{value.name}": "fp32" for value in inputs}
    return Graph(inputs, tuple(nodes), outputs, draw(st.sampled_from(["main", "prefill"])), metadata)


def every_operation() -> Graph:
    """A graph with a node of every operation, all of its operands given."""
    x = Value("x", TensorType("fp16", (1, 4, 2, 2)))
    nodes = []
    for number, (op, description) in enumerate(OPERATIONS):
        operands = {}
        for parameter in description.parameters:
            shape = (3, 4) if number % 2 else ()
            array = np.arange(12, dtype=np.float16).reshape(3, 4) if number % 2 else np.array(number, np.int32)
            value = Value(f"c{number}", TensorType("fp16" if shape else "int32", shape), array)
            if parameter.kind == "string":
                value = Value("text", TensorType("string", ()), f"{op} \"\\\n")
            operands[parameter.name] = (value, x) if parameter.variadic else value if parameter.const else x
        nodes.append(Node(op, operands, (Value(f"y{number}", x.type),), op))
    return Graph((x,), tuple(nodes), (nodes[-1].output,))
