"""The image classifiers whose topologies the onnx package ships, with weights that behave like trained ones.

The files' own weights are constants: every output is the same number and fp16 overflows. Here every weight is drawn
from a seed (He initialisation), and what training would have settled is measured on seeded images: the mean and
variance of every batch normalisation, and for convolutions without one the bias that centres each channel. So
activations keep their size through the depth of the network and outputs depend on the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

Arrays = dict[str, np.ndarray]
NAMES = ("squeezenet", "shufflenet", "resnet50", "densenet121", "inception_v1", "inception_v2", "zfnet512",
         "bvlc_alexnet", "vgg19")
FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
IMAGES = 4
"""Images that statistics are measured on."""

_CENTRED = "_centred"       # suffix of the measured mean of what a convolution without normalisation computes


def topology(name: str, seed: int = 0, settled: bool = True) -> ModelProto:
    """The classifier `name` of NAMES for one image [1, 3, 224, 224], its weights as initialisers. Unless `settled`
    nothing is measured: means stay 0 and variances 1, and biases as drawn.

    FileNotFoundError when the installed onnx package carries no such model.
    """
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    known = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    shapes = {key: array.shape for key, array in known.items() if array.dtype.kind == "f"}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(int(extent) for extent in known[node.input[0]])
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.ir_version = 4  # the first in which initialisers are no inputs
    weights = {key: array for key, array in known.items() if array.dtype.kind == "i"}
    weights.update(_drawn(model, shapes, np.random.default_rng([seed, NAMES.index(name)])))
    _set_weights(model, weights)
    if settled:
        _set_weights(model, {**weights, **_measured(model, images(IMAGES, seed))})
    onnx.checker.check_model(model)
    return model


def images(count: int, seed: int, extent: int = 224) -> np.ndarray:
    """`count` normalised images [count, 3, extent, extent] float32: shapes of several sizes, mean 0, deviation 1.

    Each is exact in fp16, so that both sides of a comparison see the same numbers.
    """
    rng = np.random.default_rng([seed, 1])
    total = np.zeros((count, 3, extent, extent))
    for cells in (2, 4, 8, 16, 32):
        coarse = rng.standard_normal((count, 3, cells, cells))
        along = np.linspace(0, cells - 1, extent)
        spread = np.maximum(0, 1 - np.abs(along[:, None] - np.arange(cells)))
        total += spread @ coarse @ spread.T
    total -= total.mean((1, 2, 3), keepdims=True)
    total /= total.std((1, 2, 3), keepdims=True)
    return total.astype(np.float16).astype(np.float32)


def _drawn(model: ModelProto, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> Arrays:
    """Weights by the part they play; means are 0 and variances 1 until they are measured."""
    readers = {name: node for node in model.graph.node for name in node.input}
    weights: Arrays = {}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name in shapes and name not in weights:
                user = readers[node.output[0]] if node.op_type == "Unsqueeze" else node
                weights[name] = _weight(user.op_type, position, shapes[name], rng).astype(np.float32)
    return weights


def _weight(operator: str, position: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if operator in ("Conv", "Gemm") and position == 1:  # outputs come first: these files transpose Gemm's weights
        return rng.standard_normal(shape, np.float32) * np.sqrt(2 / np.prod(shape[1:]))
    if operator == "BatchNormalization" and position > 2:
        return np.zeros(shape) if position == 3 else np.ones(shape)
    scale = operator == "Mul" or (operator == "BatchNormalization" and position == 1)
    return rng.uniform(0.8, 1.2, shape) if scale else rng.normal(0, 0.1, shape)


def _measured(model: ModelProto, samples: np.ndarray) -> Arrays:
    """Statistics of every normalisation and centred convolution over the samples, by the name of the weight they are.

    One run per image, each normalised by its own statistics; then the mean of the means, and the mean of the variances
    plus the variance of the means.
    """
    from onnxruntime import InferenceSession, SessionOptions
    probe, wanted = _probe(model)
    options = SessionOptions()
    options.log_severity_level = 3
    session = InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    port = input_name(model)
    runs = [session.run(list(wanted.values()), {port: image[None]}) for image in samples]
    found = {key: np.stack([run[i].reshape(-1) for run in runs]) for i, key in enumerate(wanted)}
    result: Arrays = {}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            mean, variance = found[node.input[3]], found[node.input[4]]
            result[node.input[3]] = mean.mean(0)
            result[node.input[4]] = variance.mean(0) + mean.var(0)
        elif node.output[0] + _CENTRED in found:
            result[node.input[2]] = -found[node.output[0] + _CENTRED].mean(0)
    return {key: array.astype(np.float32) for key, array in result.items()}


def _probe(model: ModelProto) -> tuple[ModelProto, dict[str, str]]:
    """The model normalising by what it computes, and the outputs that carry the statistics."""
    probe = ModelProto()
    probe.CopyFrom(model)
    normalised = {node.input[0] for node in model.graph.node if node.op_type == "BatchNormalization"}
    nodes: list[NodeProto] = []
    wanted: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            nodes += _statistics(node, wanted)
        elif node.op_type == "Conv" and len(node.input) == 3 and node.output[0] not in normalised:
            nodes += _centring(node, wanted)
        else:
            nodes.append(node)
    del probe.graph.node[:], probe.graph.output[:]
    probe.graph.node.extend(nodes)
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted.values())
    return probe, wanted


def _statistics(node: NodeProto, wanted: dict[str, str]) -> list[NodeProto]:
    """A batch normalisation by the statistics of its own input."""
    x, mean, variance = node.input[0], f"{node.output[0]}_mean", f"{node.output[0]}_variance"
    wanted[node.input[3]], wanted[node.input[4]] = mean, variance
    own = NodeProto()
    own.CopyFrom(node)
    own.input[3], own.input[4] = mean, variance
    return [
        helper.make_node("ReduceMean", [x], [f"{mean}_4d"], axes=[0, 2, 3]),
        helper.make_node("Sub", [x, f"{mean}_4d"], [f"{mean}_deviation"]),
        helper.make_node("Mul", [f"{mean}_deviation"] * 2, [f"{mean}_squares"]),
        helper.make_node("ReduceMean", [f"{mean}_squares"], [variance], axes=[0, 2, 3], keepdims=0),
        helper.make_node("ReduceMean", [x], [mean], axes=[0, 2, 3], keepdims=0),
        own,
    ]


def _centring(node: NodeProto, wanted: dict[str, str]) -> list[NodeProto]:
    """A convolution whose channels are centred, in place of its bias."""
    result = node.output[0]
    wanted[result + _CENTRED] = result + _CENTRED
    bare = NodeProto()
    bare.CopyFrom(node)
    del bare.input[2:]
    bare.output[0] = f"{result}_bare"
    return [bare, helper.make_node("ReduceMean", [f"{result}_bare"], [result + _CENTRED], axes=[0, 2, 3]),
            helper.make_node("Sub", [f"{result}_bare", result + _CENTRED], [result])]


def input_name(model: ModelProto) -> str:
    """The name of the only input."""
    port, = model.graph.input
    return str(port.name)


def _set_weights(model: ModelProto, weights: Mapping[str, np.ndarray]) -> None:
    """The weights that are used as initialisers, and no longer as inputs."""
    used = {name for node in model.graph.node for name in node.input}
    ports = [port for port in model.graph.input if port.name in used and port.name not in weights]
    del model.graph.initializer[:], model.graph.input[:]
    model.graph.initializer.extend(numpy_helper.from_array(weights[key], key) for key in weights if key in used)
    model.graph.input.extend(ports)
