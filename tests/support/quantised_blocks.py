"""A transformer's block as ONNX, and quantised models that are given every operation's operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.quantised_networks import Network, drawn, node

ROWS, WIDTH, HEADS = 12, 32, 2


def _linear(source: str, out: str, sizes: tuple[int, int], arrays: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    arrays[f"{out}_w"] = drawn(*sizes, size=sizes[0] ** -0.5)
    arrays[f"{out}_b"] = drawn(sizes[1], size=0.1)
    return [node("MatMul", [source, f"{out}_w"], [f"{out}_m"]), node("Add", [f"{out}_m", f"{out}_b"], [out])]


def _norm(source: str, out: str, arrays: dict[str, np.ndarray]) -> onnx.NodeProto:
    arrays[f"{out}_g"], arrays[f"{out}_o"] = 1 + drawn(WIDTH, size=0.1), drawn(WIDTH, size=0.1)
    return node("LayerNormalization", [source, f"{out}_g", f"{out}_o"], [out], axis=-1)


def block() -> Network:
    """Attention of two heads and a perceptron with gelu, each behind a layer norm and added to what went in."""
    arrays = {"parts": np.array([1, ROWS, HEADS, WIDTH // HEADS]), "whole": np.array([1, ROWS, WIDTH]),
              "shrink": np.array((WIDTH // HEADS) ** -0.5, np.float32), "root": np.array(2 ** 0.5, np.float32),
              "one": np.array(1, np.float32), "half": np.array(0.5, np.float32)}
    nodes = [_norm("x", "n", arrays)]
    for name in "qkv":
        nodes += [*_linear("n", name, (WIDTH, WIDTH), arrays), node("Reshape", [name, "parts"], [f"{name}_r"]),
                  node("Transpose", [f"{name}_r"], [f"{name}_t"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [node("MatMul", ["q_t", "k_t"], ["s"]), node("Mul", ["s", "shrink"], ["z"]),
              node("Softmax", ["z"], ["p"], axis=-1), node("MatMul", ["p", "v_t"], ["o"]),
              node("Transpose", ["o"], ["o_t"], perm=[0, 2, 1, 3]), node("Reshape", ["o_t", "whole"], ["o_r"]),
              *_linear("o_r", "a", (WIDTH, WIDTH), arrays), node("Add", ["a", "x"], ["r"]), _norm("r", "m", arrays),
              *_linear("m", "h", (WIDTH, 4 * WIDTH), arrays), node("Div", ["h", "root"], ["d"]),
              node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["u"]), node("Mul", ["h", "u"], ["g"]),
              node("Mul", ["g", "half"], ["f"]),
              *_linear("f", "w", (4 * WIDTH, WIDTH), arrays), node("Add", ["w", "r"], ["y"])]
    return nodes, (1, ROWS, WIDTH), arrays


def steps(model: onnx.ModelProto) -> dict[str, float]:
    """What one of 256 stands for in each tensor that a QDQ model computes and quantises, by its name."""
    scales = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    makers = {name: each for each in model.graph.node for name in each.output}
    return {each.output[0]: float(scales[each.input[1]]) for each in model.graph.node
            if each.op_type == "DequantizeLinear" and each.input[0] in makers
            and makers[each.input[0]].input[0] in makers}


def watched(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A model that has these tensors among its outputs."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    known = {each.name for each in found.graph.output}
    found.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                              for name in names if name not in known)
    return found


def given_operands(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A QDQ model whose operations do not read each other's results but inputs NAME_given, which it quantises alike."""
    found = watched(model, list(values))
    graph = found.graph
    makers = {name: each for each in graph.node for name in each.output}
    first = []
    for name, value in values.items():
        back = makers[name]
        to = makers[back.input[0]]
        graph.input.append(helper.make_tensor_value_info(f"{name}_given", TensorProto.FLOAT, value.shape))
        first += [node("QuantizeLinear", [f"{name}_given", *to.input[1:]], [f"{name}_q"]),
                  node("DequantizeLinear", [f"{name}_q", *back.input[1:]], [f"{name}_d"])]
        for reader in graph.node:
            reader.input[:] = [f"{name}_d" if each == name else each for each in reader.input]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*first, *rest])
    return found
