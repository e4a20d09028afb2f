"""Neural network models: what layers compute, the older mapping of arrays, images, weights in few bits, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from support.coreml import array_feature, image_feature, layer, message, network, save, weights

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers import load_graph
from openane.importers.coreml.layers import LAYERS
from openane.importers.coreml.schema import LAYER_KINDS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(3)


def halves(*shape: int) -> np.ndarray:
    return np.asarray(RANDOM.standard_normal(shape) / 2, np.float16).astype(np.float32)


X, CHANNEL, KERNEL = halves(1, 4, 6, 8), halves(4), halves(6, 4, 3, 3)


def run(path, layers, exact=True, shape=(1, 4, 6, 8), x=X, **rest):
    """The output of a network of one input x and one output y."""
    data = network([array_feature("x", *shape)], layers, [array_feature("y")], exact, **rest)
    graph = load_graph(save(path / "m.mlmodel", data))
    assert graph.metadata["dtype:x"] == "fp32"
    return evaluate(graph, {"x": x})["y"]


def built(op, **operands):
    """What an operation of the graph computes for X."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", X.shape)
    return evaluate(builder.finish({"y": builder.single(op, "y", x=x, **operands)}), {"x": X})["y"]


def borders(*amounts):
    return message("ValidPadding", paddingAmounts=message("BorderAmounts", borderAmounts=[
        message("EdgeSizes", startEdgeSize=a, endEdgeSize=b) for a, b in amounts]))


def activation(kind, **values):
    inner = message({"leakyReLU": "Alpha", "PReLU": "AlphaWeights", "linear": "AlphaBeta"}.get(kind, "Empty"), **values)
    return layer("activation", "x", "y", **{kind: inner})


CASES = [
    (layer("convolution", "x", "y", outputChannels=6, kernelChannels=4, kernelSize=[3, 3], stride=[2, 1], hasBias=True,
           valid=borders((1, 0), (2, 1)), weights=weights(KERNEL), bias=weights(halves(6) * 0 + 1)),
     lambda: built("conv", weight=KERNEL, bias=np.ones(6), strides=[2, 1], pad_type="custom", pad=[1, 0, 2, 1])),
    (layer("convolution", "x", "y", outputChannels=6, kernelChannels=4, kernelSize=[3, 3], stride=[2, 2],
           same=message("SamePadding", asymmetryMode=1), weights=weights(KERNEL)),
     lambda: built("conv", weight=KERNEL, strides=[2, 2], pad_type="same_lower")),
    (layer("convolution", "x", "y", outputChannels=6, kernelChannels=4, kernelSize=[3, 3], stride=[2, 2],
           isDeconvolution=True, valid=borders(), weights=weights(KERNEL.transpose(1, 0, 2, 3))),
     lambda: built("conv_transpose", weight=KERNEL.transpose(1, 0, 2, 3), strides=[2, 2], pad_type="valid")),
    (layer("pooling", "x", "y", type=0, kernelSize=[3, 3], stride=[2, 2],
           includeLastPixel=message("CompletePadding", paddingAmounts=[0, 0])),
     lambda: built("max_pool", kernel_sizes=[3, 3], strides=[2, 2], pad_type="custom", pad=[0, 1, 0, 1])),
    (layer("pooling", "x", "y", type=1, globalPooling=True), lambda: X.mean((2, 3), keepdims=True)),
    (layer("scale", "x", "y", shapeScale=[4, 1, 1], scale=weights(CHANNEL), hasBias=True, shapeBias=[1],
           bias=weights(np.array([.5]))), lambda: X * CHANNEL.reshape(1, 4, 1, 1) + .5),
    (layer("bias", "x", "y", shape=[4], bias=weights(CHANNEL)), lambda: X + CHANNEL.reshape(1, 4, 1, 1)),
    (layer("batchnorm", "x", "y", channels=4, gamma=weights(CHANNEL), beta=weights(CHANNEL), mean=weights(CHANNEL),
           variance=weights(CHANNEL ** 2 + 1), epsilon=1e-3),
     lambda: built("batch_norm", gamma=CHANNEL, beta=CHANNEL, mean=CHANNEL, variance=CHANNEL ** 2 + 1, epsilon=1e-3)),
    (activation("PReLU", alpha=weights(CHANNEL)), lambda: np.where(X > 0, X, X * CHANNEL.reshape(1, 4, 1, 1))),
    (activation("leakyReLU", alpha=.25), lambda: np.where(X > 0, X, X / 4)),
    (activation("linear", alpha=2.0, beta=.5), lambda: 2 * X + .5),
    (activation("sigmoid"), lambda: 1 / (1 + np.exp(-X))),
    (layer("unary", "x", "y", type=7, alpha=.25, scale=2.0, shift=.5), lambda: np.maximum(2 * X + .5, .25)),
    (layer("unary", "x", "y", type=4), lambda: np.exp(X)),
    (layer("add", "x", "y", alpha=1.5), lambda: X + 1.5), (layer("multiply", "x x x", "y"), lambda: X ** 3),
    (layer("average", "x x", "y"), lambda: X), (layer("softmax", "x", "y"), lambda: built("softmax", axis=1)),
    (layer("reduce", "x", "y", mode=1, axis=1), lambda: X.mean((2, 3), keepdims=True)),
    (layer("reduce", "x", "y", mode=9, axis=2), lambda: X.argmax(1, keepdims=True)),
    (layer("flatten", "x", "y", mode=1), lambda: X.transpose(0, 2, 3, 1).reshape(1, -1, 1, 1)),
    (layer("reshape", "x", "y", targetShape=[8, 4, 6], mode=1),
     lambda: X.transpose(0, 2, 3, 1).reshape(1, 4, 6, 8).transpose(0, 3, 1, 2)),
    (layer("reshape", "x", "y", targetShape=[8, 4, 6]), lambda: X.reshape(1, 8, 4, 6)),
    (layer("permute", "x", "y", axis=[0, 3, 1, 2]), lambda: X.transpose(0, 3, 1, 2)),
    (layer("slice", "x", "y", startIndex=1, endIndex=-1, stride=2, axis=2), lambda: X[..., 1:-1:2]),
    (layer("concat", "x x", "y"), lambda: np.concatenate([X, X], 1)),
    (layer("padding", "x", "y", reflection=message("Empty"), paddingAmounts=borders((1, 2), (0, 3)).paddingAmounts),
     lambda: np.pad(X, ((0, 0), (0, 0), (1, 2), (0, 3)), mode="reflect")),
    (layer("crop", "x", "y", cropAmounts=borders((1, 2), (0, 3)).paddingAmounts), lambda: X[:, :, 1:4, :5]),
    (layer("upsample", "x", "y", scalingFactor=[2, 3]), lambda: X.repeat(2, 2).repeat(3, 3)),
    (layer("mvn", "x", "y", acrossChannels=True), lambda: X - X.mean((1, 2, 3), keepdims=True)),
    (layer("lrn", "x", "y", alpha=.5, beta=.75, localSize=3, k=1.5),
     lambda: built("local_response_norm", size=3, alpha=.5, beta=.75, k=1.5)),
    (layer("dot", "x x", "y"), lambda: (X * X).sum(1, keepdims=True)),
    (layer("innerProduct", "x", "y", inputChannels=8, outputChannels=6, weights=weights(KERNEL.reshape(-1)[:48])),
     lambda: X @ KERNEL.reshape(-1)[:48].reshape(6, 8).T),
    (layer("batchedMatmul", "x", "y", weightMatrixFirstDimension=8, weightMatrixSecondDimension=6, hasBias=True,
           weights=weights(KERNEL.reshape(-1)[:48]), bias=weights(KERNEL.reshape(-1)[:6])),
     lambda: X @ KERNEL.reshape(-1)[:48].reshape(6, 8).T + KERNEL.reshape(-1)[:6]),
    (layer("tile", "x", "y", reps=[2, 1, 3]), lambda: np.tile(X, (1, 2, 1, 3))),
    (layer("broadcastToStatic", "x", "y", targetShape=[2, 1, 4, 6, 8]), lambda: np.broadcast_to(X, (2, 1, 4, 6, 8))),
    (layer("rankPreservingReshape", "x", "y", targetShape=[0, 8, -1, 3]), lambda: X.reshape(1, 8, 8, 3)),
    (layer("lowerTriangular", "x", "y"), lambda: np.tril(X)), (layer("upperTriangular", "x", "y"), lambda: np.triu(X)),
    (layer("greaterThan", "x", "c", alpha=.25), lambda: X > .25),
]


@pytest.mark.parametrize(("made", "expected"), CASES, ids=[f"{i}-{made.which(*LAYER_KINDS)}"
                                                            for i, (made, _) in enumerate(CASES)])
def test_layers(made, expected, tmp_path):
    layers = [made] if made.output == ["y"] else [made, layer("copy", "c", "y")]
    np.testing.assert_allclose(run(tmp_path, layers), expected(), atol=2e-3, rtol=2e-3)


def test_arrays_of_older_models_are_mapped_to_images(tmp_path):
    layers = [layer("convolution", "x", "a", outputChannels=6, kernelChannels=4, kernelSize=[3, 3],
                    weights=weights(KERNEL), valid=borders()),
              activation("ReLU"), layer("flatten", "b", "c"),
              layer("innerProduct", "c", "d", inputChannels=144, outputChannels=5, weights=weights(halves(5, 144)))]
    layers[1] = message("NeuralNetworkLayer", **{**layers[1].fields, "input": ["a"], "output": ["b"]})
    data = network([array_feature("x", 4, 6, 8), array_feature("v", 5)],
                   [*layers, layer("addBroadcastable", "d v", "y")], [array_feature("y", 5)], exact=False)
    graph = load_graph(save(tmp_path / "m.mlmodel", data))
    assert [value.shape for value in (*graph.inputs, *graph.outputs)] == [(4, 6, 8), (5,), (5,)]
    first = evaluate(graph, {"x": X[0], "v": np.zeros(5, np.float32)})["y"]
    second = evaluate(graph, {"x": X[0], "v": np.ones(5, np.float32)})["y"]
    np.testing.assert_allclose(second, first + 1, atol=1e-3)


@pytest.mark.parametrize(("color", "bias"), [(20, (.5, .25, -.125)), (30, (-.125, .25, .5)), (10, (.75,))])
def test_images_are_scaled_and_shifted_on_the_engine(color, bias, tmp_path):
    scaler = message("ImageScaler", channelScale=1 / 64, redBias=.5, greenBias=.25, blueBias=-.125, grayBias=.75)
    data = network([image_feature("image", 4, 6, color)], [layer("copy", "image", "y")], [array_feature("y")],
                   preprocessing=[message("Preprocessing", featureName="image", scaler=scaler)])
    graph = load_graph(save(tmp_path / "m.mlmodel", data))
    assert str(graph.inputs[0].type) == f"tensor<uint8, [1, {len(bias)}, 4, 6]>"
    assert graph.metadata["image:image"] == {10: "GRAYSCALE", 20: "RGB", 30: "BGR"}[color]
    pixels = RANDOM.integers(0, 256, (1, len(bias), 4, 6)).astype(np.uint8)
    np.testing.assert_allclose(evaluate(graph, {"image": pixels})["y"],
                               pixels / np.float32(64) + np.array(bias, np.float32).reshape(1, -1, 1, 1), atol=1e-3)


@pytest.mark.parametrize("scaler", [{"channelScale": 1e9}, {"grayBias": float("nan")}])
def test_scales_and_shifts_of_images_are_numbers_of_fp16(scaler, tmp_path):
    made = message("Preprocessing", featureName="image", scaler=message("ImageScaler", **scaler))
    data = network([image_feature("image", 4, 6, 10)], [layer("copy", "image", "y")], [array_feature("y")],
                   preprocessing=[made])
    with pytest.raises(GraphError, match=r"preprocessing of 'image': (one of the|weights must be finite)"):
        load_graph(save(tmp_path / "m.mlmodel", data))


def quantised(bits, values, **form):
    single = np.unpackbits(values.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
    return message("WeightParams", rawValue=np.packbits(single.reshape(-1)).tobytes(),
                   quantization=message("QuantizationParams", numberOfBits=bits, **form))


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6, 8])
def test_weights_in_few_bits(bits, tmp_path):
    values = RANDOM.integers(0, 2**bits, 48)
    scale, bias, table = np.arange(1, 7) / 8, np.arange(6) / 4, halves(2**bits)
    linear = message("LinearQuantizationParams", scale=scale.astype("<f4").tobytes(),
                     bias=bias.astype("<f4").tobytes())
    lookup = message("LookUpTableQuantizationParams", floatValue=table.astype("<f4").tobytes())
    for form, dense in (({"linearQuantization": linear}, values.reshape(6, 8) * scale[:, None] + bias[:, None]),
                        ({"lookupTableQuantization": lookup}, table[values].reshape(6, 8))):
        made = layer("innerProduct", "x", "y", inputChannels=8, outputChannels=6,
                     weights=quantised(bits, values, **form))
        np.testing.assert_allclose(run(tmp_path, [made]), X @ dense.T.astype(np.float32), atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize(("made", "error", "words"), [
    (layer("custom", "x", "y", className="Mine"), UnsupportedError, "custom_y.*code of an app.*Mine"),
    (layer("randomUniformLike", "x", "y"), UnsupportedError, "noise as an input"),
    (layer("loop", "x", "y"), UnsupportedError, "loop_y.*not supported.*(?s:.*)mlprogram"),
    (layer("scatterND", "x", "y"), GraphError, "scatterND_y.*needs data, indices and updates"),
    (message("NeuralNetworkLayer", name="odd", input=["x"], output=["y"]), UnsupportedError, "one that is not known"),
    (layer("copy", "nobody", "y"), GraphError, "'nobody' has not been made"),
    (layer("split", "x", "y z", nOutputs=3), GraphError, "split"),
    (layer("convolution", "x", "y", outputChannels=6, kernelChannels=4, kernelSize=[3, 3], weights=weights(X)),
     FormatError, "do not fill"),
    (layer("convolution", "x", "y", outputChannels=2**40, kernelChannels=2**40, weights=weights(X)),
     FormatError, "do not fill"),
    (layer("convolution", "x", "y", outputChannels=6, kernelChannels=4, kernelSize=[0, 3]), GraphError, "kernelSize"),
    (layer("bias", "x", "y", shape=[1], bias=weights(np.array([1e6]))), GraphError, "does not fit fp16"),
    (layer("upsample", "x", "y", scalingFactor=[2**30, 2**30]), GraphError, "at most 32768"),
    (layer("reshapeStatic", "x", "y", targetShape=[-1, -1]), GraphError, "cannot take"),
    (layer("unary", "x", "y", type=12), UnsupportedError, "unary type"),
])
def test_refusals_name_layer_and_reason(made, error, words, tmp_path):
    with pytest.raises(error, match=words):
        run(tmp_path, [made])


def test_layers_in_place_and_shared_names(tmp_path):
    layers = [layer("unary", "x", "y", type=4), layer("add", "y", "y", alpha=1.0),
              layer("add", "y", "y_input0", alpha=1.0), layer("softmax", "y", "y")]
    data = network([array_feature("x", 1, 4, 6, 8)], layers, [array_feature("y"), array_feature("y_input0")])
    found = evaluate(load_graph(save(tmp_path / "m.mlmodel", data)), {"x": X})
    np.testing.assert_allclose(found["y_input0"], np.exp(X) + 2, rtol=1e-3)
    assert np.allclose(found["y"].sum(1), 1)


def test_classifiers_give_their_probabilities(tmp_path):
    label = message("FeatureDescription", name="label", type=message("FeatureType"))
    data = network([array_feature("x", 1, 4, 6, 8)], [layer("softmax", "x", "p")], [label])
    graph = load_graph(save(tmp_path / "m.mlmodel", data))
    assert [value.name for value in graph.outputs] == ["p"]


def test_every_kind_of_layer_has_a_number():
    assert set(LAYERS) <= set(LAYER_KINDS)
    assert len(LAYERS) > 100
