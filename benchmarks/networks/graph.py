"""ONNX graphs written node by node, as exporters write them (opset 17), with weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 17


class OnnxGraph:
    """Collects nodes and initialisers; methods return the name of the tensor they make.

    `weights` gives arrays by name in place of drawn ones. Linear layers are He-initialised, gains and offsets of
    normalisations are near 1 and 0.
    """

    def __init__(self, name: str, seed: int, weights: Mapping[str, np.ndarray] | None = None) -> None:
        self.name, self.given = name, weights or {}
        self._rng = np.random.default_rng([seed, *name.encode()])
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: int) -> str:
        """A float32 input of the model."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def add(self, operator: str, *inputs: str | np.ndarray, **attributes: Any) -> str:
        """A node with one result; arrays among its inputs become initialisers."""
        result = f"{operator.lower()}_{len(self._nodes)}"
        names = [self.constant(x, f"{result}_{i}") if isinstance(x, np.ndarray) else x for i, x in enumerate(inputs)]
        self._nodes.append(helper.make_node(operator, names, [result], name=result, **attributes))
        return result

    def constant(self, array: np.ndarray, name: str) -> str:
        """An initialiser."""
        self._weights.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """The weight `name` as given, else drawn: matrices and kernels by He (outputs first), vectors near 0."""
        array = self.given.get(name)
        if array is None:
            deviation = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
            array = self._rng.standard_normal(shape, np.float32) * np.float32(deviation)
        assert array.shape == shape, f"{name} has shape {array.shape}, not {shape}"
        return self.constant(array.astype(np.float32), name)

    def linear(self, x: str, name: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
        """x [..., inputs] times a weight stored outputs first, as exporters write it: a transposed initialiser."""
        stored = self.weight(f"{name}.weight", outputs, inputs)
        rows = numpy_helper.to_array(self._weights.pop())
        product = self.add("MatMul", x, self.constant(rows.T, stored))
        return self.add("Add", product, self.weight(f"{name}.bias", outputs)) if bias else product

    def layer_norm(self, x: str, name: str, width: int, epsilon: float) -> str:
        """Layer normalisation of the last axis."""
        gain = self.given.get(f"{name}.weight")
        if gain is None:
            gain = self._rng.uniform(0.8, 1.2, width)
        scale = self.constant(gain.astype(np.float32), f"{name}.weight")
        return self.add("LayerNormalization", x, scale, self.weight(f"{name}.bias", width), axis=-1, epsilon=epsilon)

    def gelu(self, x: str) -> str:
        """x * 0.5 * (1 + erf(x / sqrt 2)), in the five nodes opset 17 needs."""
        error = self.add("Erf", self.add("Div", x, np.float32(np.sqrt(2))[None]))
        gate = self.add("Add", error, np.ones(1, np.float32))
        return self.add("Mul", self.add("Mul", x, gate), np.full(1, 0.5, np.float32))

    def finish(self, result: str, *shape: int) -> ModelProto:
        """The checked model, `result` its only output, called output."""
        self._nodes.append(helper.make_node("Identity", [result], ["output"]))
        output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, self.name, self._inputs, [output], self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model)
        return model
