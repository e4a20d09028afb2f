"""Nodes whose operands are all known, of operators that have no fold of their own: what their handlers make of them is
computed here, so that weights a model computes of its own constants are constants where a convolution reads them.

The handler builds its nodes in a graph of their own, whose constants keep every digit, and the operations' references
compute it in fp32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, RoundedArray, Value, as_stated, numpy_type
from openane.importers.onnx.constants import OnnxConstants
from openane.importers.onnx.fold import ITEM
from openane.importers.onnx.operators import quantized, quantized_layers
from openane.importers.onnx.step import Handler, OnnxStep, Result
from openane.importers.step import in_half
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate_node
from openane.ops.halves import LARGEST
from openane.ops.work import node_work

_OTHERWISE = quantized.OPERATORS.keys() | quantized_layers.OPERATORS.keys()
"""Operators whose handlers keep what is quantised as it is stored."""
_TYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_)))


def computed_now(step: OnnxStep, handler: Handler) -> Result | None:
    """The results of a node whose operands are all known, real numbers in the type of its first or fp32; None for
    what is not computed here. UnsupportedError when it is more than the model may make of itself (graph.budget)."""
    if not _computable(step):
        return None
    builder = GraphBuilder()
    constants = _Digits(builder, frozenset(), saturate=False)
    made = handler(replace(step, builder=builder, constants=constants))
    results = [constants.value(each, "result") if isinstance(each, np.ndarray) else each
               for each in (made if isinstance(made, tuple) else (made,))]
    graph = builder.finish([builder.single("identity", x=each) if each.constant else each for each in results])
    return None if any(map(_rounds, graph.nodes)) else _evaluated(step, graph)


def _computable(step: OnnxStep) -> bool:
    arrays = [each for each in step.inputs if isinstance(each, np.ndarray)]
    return bool(arrays) and len(arrays) == sum(each is not None for each in step.inputs) and \
        step.op not in _OTHERWISE and all(each.dtype in _TYPES and each.size for each in arrays) and \
        not any(attribute.HasField("g") for attribute in step.proto.attribute[:])


def _rounds(node: Node) -> bool:
    """Whether integers become real numbers of the engine, which are whole up to 2048."""
    return node.op == "cast" and any(value.dtype == "int32" for value in node.values()) and \
        node.outputs[0].dtype == "fp16"


def _evaluated(step: OnnxStep, graph: Graph) -> tuple[np.ndarray, ...]:
    found: dict[int, np.ndarray] = {}
    for node in graph.nodes:
        step.folding.take(step.label, sum(value.type.elements * ITEM for value in node.outputs), node_work(node))
        found.update(zip(map(id, node.outputs), evaluate_node(as_stated(node), found), strict=True))
    real = next((each.dtype for each in step.inputs if isinstance(each, np.ndarray) and each.dtype.kind == "f"),
                np.dtype(np.float32))
    digits = np.promote_types(real, np.float32)  # what is computed of fp16 is rounded once, where it is a constant
    types = {"fp16": digits, "int32": np.dtype(np.int64)}
    return tuple(found[id(value)].astype(types.get(value.dtype, numpy_type(value.dtype)), copy=False)
                 for value in graph.outputs)


class _Digits(OnnxConstants):
    """Constants in all their digits, also where fp16 holds none of them."""

    def value(self, array: np.ndarray, name: str) -> Value:
        """The constant value of `array`."""
        if array.dtype.kind != "f":
            return super().value(array, name)
        stated = np.asarray(array, np.float32)
        return self._builder.constant(RoundedArray(self.half(stated, name), stated), name)

    def detailed(self, array: np.ndarray) -> bool:
        """Of every array, whatever its dimensions."""
        return True

    def half(self, array: np.ndarray, name: str) -> np.ndarray:
        """`array` in fp16, the largest finite number there where it holds none: what is stated beside it counts."""
        half, lost = in_half(array)
        return np.where(lost, np.sign(array) * LARGEST, half).astype(np.float16) if lost is not None and lost.any() \
            else half
