"""Core ML models made without Apple's tools: messages by the schema, and comparisons of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from openane.formats.protobuf import Message, write_message
from openane.graph import Graph, Value
from openane.importers.coreml.schema import SCHEMA
from openane.ops.build import GraphBuilder


def message(kind: str, **values: Any) -> Message:
    return Message(SCHEMA, kind, **values)


def weights(array: np.ndarray) -> Message:
    """A WeightParams message of float32."""
    return message("WeightParams", floatValue=np.ascontiguousarray(array, "<f4").tobytes())


def array_feature(name: str, *shape: int, code: int = 65568) -> Message:
    return message("FeatureDescription", name=name, type=message("FeatureType", multiArrayType=message(
        "ArrayFeatureType", shape=list(shape), dataType=code)))


def image_feature(name: str, height: int, width: int, color: int) -> Message:
    return message("FeatureDescription", name=name, type=message("FeatureType", imageType=message(
        "ImageFeatureType", height=height, width=width, colorSpace=color)))


def layer(kind: str, inputs: str, outputs: str, **parameters: Any) -> Message:
    """A layer; `inputs` and `outputs` are names separated by blanks."""
    params = message(SCHEMA.by_name["NeuralNetworkLayer"][kind].kind, **parameters)
    return message("NeuralNetworkLayer", name=f"{kind}_{outputs}", input=inputs.split(), output=outputs.split(),
                   **{kind: params})


def network(features: list[Message], layers: list[Message], outputs: list[Message], exact: bool = True,
            preprocessing: list[Message] | None = None) -> bytes:
    """The bytes of a .mlmodel."""
    body = message("NeuralNetwork", layers=layers, arrayInputShapeMapping=int(exact),
                   imageInputShapeMapping=int(exact), preprocessing=preprocessing or [])
    description = message("ModelDescription", input=features, output=outputs)
    return write_message(message("Model", specificationVersion=4, description=description, neuralNetwork=body))


def small_graph() -> Graph:
    """A network with a convolution, its weights in the file, and constants of several types."""
    random = np.random.default_rng(5)
    builder = GraphBuilder(metadata={"opset": "ios17"})
    x = builder.input("x", "fp16", (1, 3, 8, 8))
    kernel = (random.standard_normal((4, 3, 3, 3)) / 4).astype(np.float16)
    y = builder.single("conv", "c", x=x, weight=kernel, bias=np.arange(4, dtype=np.float16), pad_type="same")
    y = builder.single("max_pool", "p", x=builder.single("relu", "r", x=y), kernel_sizes=[2, 2], strides=[2, 2],
                       pad_type="valid")
    y = builder.single("concat", "both", values=(y, builder.single("tanh", "t", x=y)), axis=1)
    y = builder.single("reduce_mean", "m", x=y, axes=[2, 3], keep_dims=False)
    y = builder.single("linear", "l", x=y, weight=(random.standard_normal((5, 8)) / 4).astype(np.float16))
    return builder.finish({"y": builder.single("softmax", "s", x=y, axis=-1)})


def same(first: Graph, second: Graph, metadata: bool = True) -> None:
    """Asserts that two graphs are equal: structure, types, port names, constants bit for bit, and metadata that is not
    about who wrote the file."""
    pairs: dict[int, Value] = {}

    def match(one: Value, other: Value) -> None:
        assert (one.type, one.constant) == (other.type, other.constant)
        assert one.constant or pairs.setdefault(id(one), other) is other
        if isinstance(one.data, np.ndarray):
            assert isinstance(other.data, np.ndarray)
            assert (one.data.dtype, one.data.tobytes()) == (other.data.dtype, other.data.tobytes())
        else:
            assert one.data == other.data

    def match_all(ones: tuple[Value, ...], others: tuple[Value, ...]) -> None:
        for one, other in zip(ones, others, strict=True):
            match(one, other)

    match_all(first.inputs, second.inputs)
    for node, twin in zip(first.nodes, second.nodes, strict=True):
        assert (node.op, set(node.operands)) == (twin.op, set(twin.operands))
        for key, operand in node.operands.items():
            other = twin.operands[key]
            both = [each if isinstance(each, tuple) else (each,) for each in (operand, other)]
            assert isinstance(operand, tuple) == isinstance(other, tuple)
            match_all(*both)
        match_all(node.outputs, twin.outputs)
    match_all(first.outputs, second.outputs)
    for side in ("inputs", "outputs"):
        assert [value.name for value in getattr(first, side)] == [value.name for value in getattr(second, side)]
    hidden = ("opset", "coremlc")
    assert not metadata or all(second.metadata[key] == text for key, text in first.metadata.items()
                               if not key.startswith(hidden))


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
