"""Whole networks from ONNX, compiled to one engine program and simulated, against onnxruntime in fp32."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from openane.compiler import Model, Where, compile
from openane.formats import load_program
from openane.importers.onnx import load_onnx


class Net:
    """Builds an ONNX model whose input is x and whose weights are random."""

    def __init__(self, *shape):
        self.shape, self.nodes, self.weights = shape, [], []
        self.rng = np.random.default_rng(7)
        self.last = "x"

    def weight(self, *shape):
        scale = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
        return self.array((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def array(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op, *inputs, source=None, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [source or self.last, *inputs], [output], name=output, **attributes))
        self.last = output
        return output

    def conv(self, channels_in, channels, kernel, groups=1, bias=True, **attributes):
        weights = [self.weight(channels, channels_in // groups, kernel, kernel)]
        return self.add("Conv", *weights, *([self.weight(channels)] if bias else []), group=groups, **attributes)

    def normalise(self, channels):
        spread = self.array(self.rng.uniform(0.5, 1.5, channels).astype(np.float32))
        return self.add("BatchNormalization", *(self.weight(channels) for _ in range(3)), spread)

    def linear(self, inputs, outputs):
        return self.add("Gemm", self.weight(outputs, inputs), self.weight(outputs), transB=1)

    def model(self):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, "net", [x], [helper.make_tensor_value_info(self.last, TensorProto.FLOAT,
                                                                                         None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def classifier(batch):
    net = Net(batch, 1, 12, 12)
    net.conv(1, 8, 3, pads=[1, 1, 1, 1])
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.conv(8, 20, 3)
    net.add("Relu")
    net.add("Flatten")
    net.linear(20 * 16, 30)
    net.add("Relu")
    net.linear(30, 10)
    net.add("Softmax", axis=1)
    return net


def residual(batch):
    net = Net(batch, 3, 16, 16)
    trunk = net.conv(3, 16, 3, pads=[1, 1, 1, 1])
    for stride in (1, 2):
        net.conv(16, 16, 3, bias=False, pads=[1, 1, 1, 1], strides=[stride, stride])
        net.normalise(16)
        net.add("Relu")
        net.conv(16, 16, 3, bias=False, pads=[1, 1, 1, 1])
        body = net.normalise(16)
        if stride == 2:
            net.last = trunk
            trunk = net.conv(16, 16, 1, strides=[2, 2])
        net.add("Add", body, source=trunk)
        trunk = net.add("Relu")
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.linear(16, 7)
    return net


def separable(batch):
    net = Net(batch, 3, 15, 13)
    net.conv(3, 24, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    net.add("Clip", net.array(np.float32(0)), net.array(np.float32(6)))
    net.conv(24, 24, 3, groups=24, pads=[1, 1, 1, 1])
    net.normalise(24)
    net.add("Relu")
    net.conv(24, 40, 1)
    squeeze = net.add("Sigmoid")
    net.add("GlobalAveragePool")
    net.conv(40, 40, 1)
    net.add("HardSigmoid")
    net.add("Mul", squeeze)
    net.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    net.conv(40, 20, 3, groups=4)
    net.add("LeakyRelu", alpha=0.1)
    return net


def attention(batch):
    net = Net(batch, 9, 32)
    projections = []
    for transposed in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        net.last = "x"
        net.add("MatMul", net.weight(32, 32))
        net.add("Add", net.weight(32))
        net.add("Reshape", net.array(np.array([batch, 9, 4, 8])))
        projections.append(net.add("Transpose", perm=transposed))
    query, key, value = projections
    net.add("MatMul", key, source=query)
    net.add("Mul", net.array(np.float32(8 ** -0.5)))
    net.add("Softmax", axis=-1)
    net.add("MatMul", value)
    net.add("Transpose", perm=(0, 2, 1, 3))
    net.add("Reshape", net.array(np.array([batch, 9, 32])))
    net.add("MatMul", net.weight(32, 32))
    net.add("Add", "x")
    net.add("LayerNormalization", net.weight(32), net.weight(32), axis=-1)
    net.add("Tanh")
    return net


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("network", [classifier, residual, separable, attention])
def test_network_computes_what_onnxruntime_does(execute, network, batch):
    proto = network(batch).model()
    model = compile(load_onnx(proto))
    assert model.one_program
    assert {entry.where for entry in model.report} <= set(Where) - {Where.HOST}
    port = model.inputs[0]
    x = np.random.default_rng(batch).uniform(-1, 1, port.shape).astype(np.float16)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x.astype(np.float32)})[0]
    for mode in ("fast", "exact"):
        found = execute(model, {"x": x}, mode)[model.outputs[0].name]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 2e-2, mode


def test_files_hold_the_same_program(execute, tmp_path):
    model = compile(load_onnx(classifier(1).model()))
    for name in ("net.ane", "net.hwx", "net.anec"):
        model.save(tmp_path / name)
    loaded = Model.load(tmp_path / "net.ane")
    assert loaded.program == model.program
    assert (loaded.inputs, loaded.outputs, loaded.report) == (model.inputs, model.outputs, model.report)
    assert load_program(tmp_path / "net.hwx") == model.program
    x = {"x": np.random.default_rng(0).uniform(-1, 1, model.inputs[0].shape)}
    for name, outputs in execute(loaded, x).items():
        assert (outputs == execute(model, x)[name]).all()
    assert compile(loaded.graph).program == model.program
