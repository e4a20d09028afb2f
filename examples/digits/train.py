"""Trains the digit classifier in plain numpy and writes it as ONNX.

    image [1,1,8,8] -> conv 3x3, 16 -> ReLU -> conv 3x3, 32 -> ReLU -> max pool 2x2
                    -> linear 64 -> ReLU -> linear 10 -> softmax -> probabilities [1,10]

Run `python examples/digits/train.py`; it takes some ten seconds and rewrites digits.onnx beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from digits import SEED, load_split
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

MODEL = Path(__file__).with_name("digits.onnx")
EPOCHS = 30
BATCH = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
CLASSES = 10

Parameters = dict[str, np.ndarray]


def initial(rng: np.random.Generator) -> Parameters:
    """Weights drawn after He et al., biases zero. Convolutions are [out, in, 3, 3], linear layers [out, in]."""
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "linear1": (64, 512), "linear2": (CLASSES, 64)}
    parameters = {}
    for name, shape in shapes.items():
        fan_in = int(np.prod(shape[1:]))
        parameters[f"{name}.weight"] = (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return parameters


def convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """3x3 convolution with padding 1, and the windows [N, H, W, C*9] its gradient needs."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    windows = windows.reshape(*windows.shape[:3], -1)
    y = windows @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), windows


def convolve_gradient(dy: np.ndarray, windows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients of weight, bias and input."""
    flat = dy.transpose(0, 2, 3, 1).reshape(-1, len(weight))
    dw = (flat.T @ windows.reshape(-1, windows.shape[-1])).reshape(weight.shape)
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    dx, _ = convolve(dy, turned, np.zeros(len(turned), np.float32))
    return dw, flat.sum(0), dx


def loss_gradient(p: Parameters, x: np.ndarray, labels: np.ndarray) -> tuple[float, Parameters]:
    """Mean cross entropy of a batch and its gradient by backpropagation."""
    y1, windows1 = convolve(x, p["conv1.weight"], p["conv1.bias"])
    a1 = np.maximum(y1, 0)
    y2, windows2 = convolve(a1, p["conv2.weight"], p["conv2.bias"])
    n, c, h, w = y2.shape
    quads = np.maximum(y2, 0).reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    quads = quads.reshape(n, c, h // 2, w // 2, 4)
    pooled = quads.max(-1).reshape(n, -1)
    y3 = pooled @ p["linear1.weight"].T + p["linear1.bias"]
    a3 = np.maximum(y3, 0)
    logits = a3 @ p["linear2.weight"].T + p["linear2.bias"]
    logits -= logits.max(1, keepdims=True)
    log_probability = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = -float(log_probability[np.arange(n), labels].mean())

    g: Parameters = {}
    d = np.exp(log_probability)
    d[np.arange(n), labels] -= 1
    d /= n
    g["linear2.weight"], g["linear2.bias"] = d.T @ a3, d.sum(0)
    d = (d @ p["linear2.weight"]) * (y3 > 0)
    g["linear1.weight"], g["linear1.bias"] = d.T @ pooled, d.sum(0)
    d = (d @ p["linear1.weight"]).reshape(n, c, h // 2, w // 2)
    winner = np.arange(4) == quads.argmax(-1)[..., None]
    spread = (d[..., None] * winner).reshape(n, c, h // 2, w // 2, 2, 2)
    d = spread.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h, w) * (y2 > 0)
    g["conv2.weight"], g["conv2.bias"], d = convolve_gradient(d, windows2, p["conv2.weight"])
    g["conv1.weight"], g["conv1.bias"], _ = convolve_gradient(d * (y1 > 0), windows1, p["conv1.weight"])
    return loss, g


def predict(p: Parameters, x: np.ndarray) -> np.ndarray:
    """The class of each image."""
    a = np.maximum(convolve(x, p["conv1.weight"], p["conv1.bias"])[0], 0)
    a = np.maximum(convolve(a, p["conv2.weight"], p["conv2.bias"])[0], 0)
    n, c, h, w = a.shape
    a = a.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5)).reshape(n, -1)
    a = np.maximum(a @ p["linear1.weight"].T + p["linear1.bias"], 0)
    return (a @ p["linear2.weight"].T + p["linear2.bias"]).argmax(1)


def train(images: np.ndarray, labels: np.ndarray) -> Parameters:
    """Adam with decoupled weight decay and a cosine schedule."""
    rng = np.random.default_rng(SEED)
    p = initial(rng)
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        losses = []
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start:start + BATCH]
            loss, gradient = loss_gradient(p, images[batch], labels[batch])
            losses.append(loss)
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, g in gradient.items():
                first[name] += 0.1 * (g - first[name])
                second[name] += 0.001 * (g * g - second[name])
                update = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                p[name] -= (rate * (update + WEIGHT_DECAY * p[name])).astype(np.float32)
        print(f"epoch {epoch + 1:2}/{EPOCHS}  loss {np.mean(losses):.4f}")
    return p


def export(p: Parameters) -> onnx.ModelProto:
    """The ONNX model; initialisers carry the weights."""
    def layer(kind: str, name: str, source: str, target: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, [source, f"{name}.weight", f"{name}.bias"], [target], name=name, **attributes)

    def function(kind: str, name: str, source: str, target: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, [source], [target], name=name, **attributes)

    nodes = [
        layer("Conv", "conv1", "image", "conv1.out", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        function("Relu", "relu1", "conv1.out", "relu1.out"),
        layer("Conv", "conv2", "relu1.out", "conv2.out", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        function("Relu", "relu2", "conv2.out", "relu2.out"),
        function("MaxPool", "pool", "relu2.out", "pool.out", kernel_shape=[2, 2], strides=[2, 2]),
        function("Flatten", "flatten", "pool.out", "flatten.out"),
        layer("Gemm", "linear1", "flatten.out", "linear1.out", transB=1),
        function("Relu", "relu3", "linear1.out", "relu3.out"),
        layer("Gemm", "linear2", "relu3.out", "linear2.out", transB=1),
        function("Softmax", "softmax", "linear2.out", "probabilities", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in p.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Trains, reports the accuracy on the test split and writes the model."""
    (images, labels), (test_images, test_labels) = load_split()
    p = train(images, labels)
    accuracy = (predict(p, test_images) == test_labels).mean()
    MODEL.write_bytes(export(p).SerializeToString())
    print(f"test accuracy {accuracy:.2%} on {len(test_labels)} images, {MODEL.name} {MODEL.stat().st_size} bytes")


if __name__ == "__main__":
    main()
