"""Small StableHLO modules in tests, written as jax.export writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from openane.graph import Graph
from openane.importers.stablehlo import load_stablehlo
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(3)

DENSE = """#loc1 = loc("x")
module @jit_dense attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x4xf32> loc("x")) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[1.0, -2.0, 0.5], [0.25, 1.5, -1.0], [2.0, 0.0, 1.0], [-0.5, 1.0, 3.0]]> : tensor<4x3xf32> loc(#loc2)
    %cst_0 = stablehlo.constant dense<"0x0000803F0000003F000080BF"> : tensor<3xf32> loc(#loc2)
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32> loc(#loc3)
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32> loc(#loc3)
    %2 = stablehlo.add %0, %1 : tensor<2x3xf32> loc(#loc3)
    %3 = call @relu(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc3)
    return %3 : tensor<2x3xf32> loc(#loc2)
  } loc(#loc2)
  func.func private @relu(%arg0: tensor<2x3xf32> loc(unknown)) -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc2)
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32> loc(#loc2)
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x3xf32> loc(#loc2)
    return %1 : tensor<2x3xf32> loc(#loc2)
  } loc(#loc2)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("model.py":12:4 to :9)
#loc3 = loc("jit(dense)/dot_general"(#loc2))
"""  # noqa: E501
"""A dense layer with relu."""


def module(body: str, result: str, **inputs: str) -> str:
    """A module of one function: statements, of which the last gives %r, and the types of inputs."""
    arguments = ", ".join(f"%{name}: tensor<{kind}>" for name, kind in inputs.items())
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())
    head = f"func.func public @main({arguments}) -> tensor<{result}>"
    return f"{head} {{\n{lines}\n    return %r : tensor<{result}>\n}}\n"


def computed(text: str, *arrays: np.ndarray) -> tuple[Graph, np.ndarray]:
    """A module's graph, and its first output for arrays."""
    graph = load_stablehlo(text)
    feeds: dict[str, Any] = {value.name: array for value, array in zip(graph.inputs, arrays, strict=True)}
    return graph, evaluate(graph, feeds)[graph.outputs[0].name]


def drawn(*shape: int) -> np.ndarray:
    """Numbers that fp16 holds exactly."""
    return RANDOM.standard_normal(shape).astype(np.float16).astype(np.float32)
