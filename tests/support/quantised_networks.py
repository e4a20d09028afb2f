"""Small networks as ONNX, onnxruntime's quantiser on them, and what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader

node = helper.make_node
Network = tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, np.ndarray]]
"""Nodes from x to y, the shape of x, and the initialisers."""


def drawn(*shape: int, size: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(shape).standard_normal(shape) * size).astype(np.float32)


def pooled() -> Network:
    return ([node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
             node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("AveragePool", ["p"], ["y"], kernel_shape=[2, 2], strides=[1, 1])],
            (1, 4, 8, 8), {"w": drawn(8, 4, 3, 3, size=0.2), "b": drawn(8)})


def joined() -> Network:
    return ([node("Conv", ["x", "w"], ["a"]), node("Conv", ["x", "v"], ["b"], pads=[1] * 4),
             node("Concat", ["a", "b"], ["c"], axis=1), node("Relu", ["c"], ["y"])],
            (1, 6, 5, 5), {"w": drawn(4, 6, 1, 1, size=0.4), "v": drawn(5, 6, 3, 3, size=0.2)})


def classifier() -> Network:
    return ([node("Conv", ["x", "w", "b"], ["c"], strides=[2, 2]), node("Relu", ["c"], ["r"]),
             node("GlobalAveragePool", ["r"], ["g"]), node("Flatten", ["g"], ["f"]),
             node("Gemm", ["f", "v", "u"], ["y"], transB=1)],
            (1, 3, 11, 11), {"w": drawn(16, 3, 3, 3, size=0.3), "b": drawn(16), "v": drawn(10, 16, size=0.3),
                             "u": drawn(10)})


def perceptron() -> Network:
    return ([node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Relu", ["a"], ["r"]),
             node("MatMul", ["r", "v"], ["y"])],
            (3, 20), {"w": drawn(20, 32, size=0.2), "b": drawn(32), "v": drawn(32, 9, size=0.2)})


def residual() -> Network:
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
             node("Conv", ["r", "v"], ["d"], pads=[1] * 4), node("Add", ["d", "x"], ["s"]), node("Relu", ["s"], ["y"])],
            (1, 8, 6, 6), {"w": drawn(8, 8, 3, 3, size=0.1), "v": drawn(8, 8, 3, 3, size=0.15)})


def gate() -> Network:
    return ([node("Conv", ["x", "w", "b"], ["c"]), node("Sigmoid", ["c"], ["s"]), node("Mul", ["c", "s"], ["y"])],
            (1, 6, 6, 6), {"w": drawn(8, 6, 1, 1, size=0.4), "b": drawn(8)})


def clipped() -> Network:
    return ([node("Conv", ["x", "w"], ["c"], group=4, pads=[1] * 4), node("Clip", ["c", "lo", "hi"], ["k"]),
             node("Conv", ["k", "v"], ["y"])],
            (1, 4, 7, 7), {"w": drawn(8, 1, 3, 3, size=0.5), "v": drawn(6, 8, 1, 1, size=0.3),
                           "lo": np.array(0, np.float32), "hi": np.array(6, np.float32)})


def attention() -> Network:
    return ([node("MatMul", ["x", "w"], ["q"]), node("MatMul", ["x", "v"], ["k"]),
             node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"]),
             node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "x"], ["y"])],
            (1, 6, 16), {"w": drawn(16, 16, size=0.15), "v": drawn(17, 16, size=0.15)[:16].copy()})


def resized() -> Network:
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
             node("Resize", ["c", "", "sizes"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")],
            (1, 3, 5, 5), {"w": drawn(6, 3, 3, 3, size=0.3), "sizes": np.array([1, 1, 2, 2], np.float32)})


def flattened() -> Network:
    return ([node("Reshape", ["x", "shape"], ["f"]), node("Gemm", ["f", "w", "b"], ["g"]),
             node("LeakyRelu", ["g"], ["y"], alpha=0.1)],
            (1, 4, 3, 3), {"w": drawn(36, 20, size=0.15), "b": drawn(20), "shape": np.array([1, 36], np.int64)})


def padded() -> Network:
    return ([node("Pad", ["x", "pads"], ["p"]), node("Conv", ["p", "w"], ["c"]),
             node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1])],
            (1, 3, 6, 6), {"w": drawn(8, 3, 3, 3, size=0.3), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)})


def normalised() -> Network:
    """A batch norm that no convolution takes up."""
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
             node("BatchNormalization", ["r", "g", "b", "m", "s"], ["n"]), node("LeakyRelu", ["n"], ["y"], alpha=0.2)],
            (1, 6, 8, 8), {"w": drawn(8, 6, 3, 3, size=0.2), "g": 1 + drawn(8, size=0.4), "b": drawn(8, size=0.3),
                           "m": drawn(8, size=0.3) + 0.1, "s": np.abs(drawn(8)) + np.float32(0.3)})


def instanced() -> Network:
    """An instance norm before a function of finer steps."""
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("InstanceNormalization", ["c", "g", "b"], ["n"]),
             node("LeakyRelu", ["n"], ["y"], alpha=0.2)],
            (1, 6, 8, 8), {"w": drawn(8, 6, 3, 3, size=0.2), "g": 1 + drawn(8, size=0.3), "b": drawn(8, size=0.3)})


def layered() -> Network:
    """A layer norm before a perceptron."""
    return ([node("MatMul", ["x", "w"], ["m"]), node("LayerNormalization", ["m", "g", "b"], ["n"], axis=-1),
             node("MatMul", ["n", "v"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "u"], ["y"])],
            (1, 12, 32), {"w": drawn(32, 48, size=0.2), "g": 1 + drawn(48, size=0.1), "b": drawn(48, size=0.1),
                          "v": drawn(48, 64, size=0.15), "u": drawn(64, 16, size=0.15)})


def shrunk() -> Network:
    """tanh(x) - x between convolutions."""
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Tanh", ["c"], ["t"]), node("Sub", ["t", "c"], ["s"]),
             node("Conv", ["s", "v"], ["y"], pads=[1] * 4)],
            (1, 6, 8, 8), {"w": drawn(8, 6, 3, 3, size=0.2), "v": drawn(6, 8, 3, 3, size=0.2)})


def stacked() -> Network:
    """Three residual sums."""
    nodes, last = [], "x"
    for name in "abc":
        nodes += [node("Conv", [last, name], [f"{name}_c"], pads=[1] * 4),
                  node("Add", [f"{name}_c", last], [f"{name}_s"])]
        last = f"{name}_s"
    return ([*nodes, node("Relu", [last], ["y"])], (1, 8, 9, 9),
            {name: drawn(8, 8, 3, 3, size=0.05 * (place + 1)) for place, name in enumerate("abc")})


def averaged() -> Network:
    """An average of nine between two convolutions, of fewer at the border."""
    return ([node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
             node("AveragePool", ["c"], ["p"], kernel_shape=[3, 3], pads=[1] * 4),
             node("Conv", ["p", "v"], ["y"], pads=[1] * 4)],
            (1, 8, 12, 12), {"w": drawn(8, 8, 3, 3, size=0.1), "v": drawn(8, 8, 3, 3, size=0.15)})


def interpolated() -> Network:
    """Linear resizing of a convolution's result to twice the extent."""
    return ([node("Conv", ["x", "w"], ["c"]),
             node("Resize", ["c", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel")],
            (1, 4, 24, 24), {"w": drawn(6, 4, 1, 1, size=0.4), "sizes": np.array([1, 1, 2, 2], np.float32)})


NETWORKS: Mapping[str, Callable[[], Network]] = {each.__name__: each for each in (
    pooled, joined, classifier, perceptron, residual, gate, clipped, attention, resized, flattened, padded,
    normalised, instanced, layered, shrunk, stacked)}


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Eight drawn inputs."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.left = [{"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)} for seed in range(8)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def saved(network: Network, path: Path) -> None:
    """Writes a network before it is quantised."""
    nodes, shape, arrays = network
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def plain(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    """onnxruntime without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    return lambda x: np.asarray(session.run(None, {"x": x})[0])
