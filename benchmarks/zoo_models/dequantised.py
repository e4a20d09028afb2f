"""Networks that onnxruntime rounds to 8 bits while it runs, as they were before: with the same weights, and nothing
rounded on the way. What fp16 costs them is seen beside these; beside onnxruntime one would see what 8 bits cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROUNDED = ("Ceil", "Floor", "Round")
INTEGER = 6
"""The element type of sums, int32."""


class _Model:
    """The nodes and constants that take the place of a graph's."""

    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper
        self.known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.known |= {node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in graph.node
                       if node.op_type == "Constant" and node.attribute[0].name == "value"}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.scales: set[str] = set()

    def constant(self, name: str, array: Any) -> str:
        """Adds a constant: its name."""
        from onnx import numpy_helper
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, op: str, names: list[str], outputs: list[str], like: Any = None) -> None:
        """Adds a node with the attributes of another."""
        from onnx import helper
        made = helper.make_node(op, names, outputs)
        made.attribute.extend(like.attribute if like is not None else ())
        self.nodes.append(made)

    def weights(self, node: Any, index: int, zero: int, axis: int) -> np.ndarray:
        """Whole weights less their zero point, which may have a number for each place along an axis."""
        whole = self.known[node.input[index]].astype(np.float32)
        if len(node.input) <= zero or not node.input[zero]:
            return whole
        centre = self.known[node.input[zero]].astype(np.float32)
        shape = [-1 if place == axis else 1 for place in range(whole.ndim)] if centre.size > 1 else ()
        return np.asarray(whole - centre.reshape(shape))


def dequantised(path: Path) -> bytes:
    """An ONNX file without dynamic quantisation."""
    import onnx
    model = onnx.load(str(path))
    made = _Model(model.graph)
    for node in model.graph.node:
        _replaced(made, node)
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(made.nodes)
    model.graph.initializer.extend(made.constants)
    content: bytes = model.SerializeToString()
    return content


def _replaced(made: _Model, node: Any) -> None:
    """The nodes in place of one."""
    result = node.output[0] if node.output else ""
    if node.op_type == "DynamicQuantizeLinear":
        made.node("Identity", [node.input[0]], [result])
        made.constant(node.output[1], 1.0), made.constant(node.output[2], 0.0)
        made.scales.add(node.output[1])
    elif node.op_type in ("MatMulInteger", "ConvInteger"):
        product = node.op_type == "MatMulInteger"
        weight = made.constant(f"{result}_weight", made.weights(node, 1, 3, 1 if product else 0))
        made.node("MatMul" if product else "Conv", [node.input[0], weight], [result], node)
    elif node.op_type == "DynamicQuantizeLSTM":
        weights = [made.constant(f"{result}_weight{index}", _lstm_weights(made, node, index, scale))
                   for index, scale in ((1, 8), (2, 10))]
        made.node("LSTM", [node.input[0], *weights, *node.input[3:8]], list(node.output), node)
    elif made.scales.intersection(node.input) and (
            node.op_type in ROUNDED or (node.op_type == "Cast" and node.attribute[0].i == INTEGER)):
        made.node("Identity", list(node.input), [result])
        made.scales.add(result)
    else:
        made.nodes.append(node)
        if made.scales.intersection(node.input) and node.op_type in ("Mul", "Div", "Reshape", "Unsqueeze"):
            made.scales.update(node.output)


def _lstm_weights(made: _Model, node: Any, index: int, scale: int) -> np.ndarray:
    """[directions, gates, features] of whole ones the other way round."""
    whole = made.known[node.input[index]].astype(np.float32)
    factor, centre = (made.known[node.input[place]].astype(np.float32).reshape(len(whole), 1, -1)
                      for place in (scale, scale + 1))
    return np.asarray(((whole - centre) * factor).transpose(0, 2, 1))
