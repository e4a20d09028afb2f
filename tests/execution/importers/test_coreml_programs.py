"""One network as a Core ML package (read by us and by coremltools), as a neural network and as ONNX: one program."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import onnx
import pytest
from support.needs import library

import openane as ane
from openane.formats import write_hwx
from openane.importers import load_coreml, load_graph, write_mlpackage

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)
KERNEL, BIAS, MATRIX, OFFSET = (np.asarray(RANDOM.standard_normal(shape) / 4, np.float16).astype(np.float32)
                                for shape in ((8, 3, 3, 3), (8,), (10, 8), (10,)))


@pytest.fixture(scope="module")
def coremltools():
    """The package, which warns about the versions of everything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library("coremltools")


@pytest.fixture(scope="module")
def onnx_program(tmp_path_factory):
    """The network's program as made from ONNX."""
    node, arrays = onnx.helper.make_node, {"k": KERNEL, "b": BIAS, "m": MATRIX, "o": OFFSET}
    nodes = [node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
             node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", ["p"], ["g"]),
             node("Flatten", ["g"], ["f"]), node("Gemm", ["f", "m", "o"], ["l"], transB=1),
             node("Softmax", ["l"], ["y"], axis=-1)]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "n", [value("x", 1, X.shape)], [value("y", 1, (1, 10))],
                                   [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()])
    path = tmp_path_factory.mktemp("onnx") / "n.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    model = ane.compile(load_graph(path))
    return write_hwx(model.program), ane.run(model, {"x": X})["y"]


def converted(coremltools, target, **options):
    """The network as coremltools converts it."""
    builder = coremltools.converters.mil.Builder

    @builder.program(input_specs=[builder.TensorSpec(shape=X.shape)], opset_version=target)
    def program(x):
        y = builder.conv(x=x, weight=KERNEL, bias=BIAS, pad_type="custom", pad=[1, 1, 1, 1])
        y = builder.max_pool(x=builder.relu(x=y), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
        y = builder.reshape(x=builder.reduce_mean(x=y, axes=[2, 3], keep_dims=True), shape=[1, 8])
        return builder.softmax(x=builder.linear(x=y, weight=MATRIX, bias=OFFSET), axis=-1, name="y")

    return coremltools.convert(program, minimum_deployment_target=target, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("target", "precision"), [("iOS15", "FLOAT16"), ("iOS18", "FLOAT16"), ("iOS17", "FLOAT32")])
def test_packages_give_the_program_of_the_onnx_model(coremltools, onnx_program, target, precision, tmp_path,
                                                     monkeypatch):
    model = converted(coremltools, getattr(coremltools.target, target), convert_to="mlprogram",
                      compute_precision=getattr(coremltools.precision, precision))
    model.save(str(tmp_path / "n.mlpackage"))
    program, y = onnx_program
    for graph in (load_coreml(tmp_path / "n.mlpackage", reader="coremltools"), load_coreml(model)):
        assert write_hwx(ane.compile(graph).program) == program
    monkeypatch.setitem(sys.modules, "coremltools", None)
    graph = load_graph(tmp_path / "n.mlpackage")
    compiled = ane.compile(graph)
    assert write_hwx(compiled.program) == program
    assert np.array_equal(ane.run(compiled, {"x": X})["y"], y)
    assert [port.dtype for port in (*compiled.inputs, *compiled.outputs)] == ["fp32", "fp32"]
    write_mlpackage(graph, tmp_path / "again.mlpackage")
    assert write_hwx(ane.compile(load_graph(tmp_path / "again.mlpackage")).program) == program


@pytest.mark.filterwarnings("ignore")
def test_neural_networks_give_the_program_of_the_onnx_model(coremltools, onnx_program, tmp_path):
    converted(coremltools, coremltools.target.iOS14, convert_to="neuralnetwork").save(str(tmp_path / "n.mlmodel"))
    assert write_hwx(ane.compile(load_graph(tmp_path / "n.mlmodel")).program) == onnx_program[0]
