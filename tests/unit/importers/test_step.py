"""What importers share: names, sources and errors of a step, and what is said of operators nobody knows."""

from __future__ import annotations

import numpy as np
import pytest

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, TensorType, Value
from openane.importers import composites
from openane.importers.coreml.layers.layer import CoremlLayer as CoreMLLayer
from openane.importers.espresso.layer import EspressoLayer as EspressoLayer
from openane.importers.netplist.unit import Unit
from openane.importers.onnx.step import OnnxStep as OnnxStep
from openane.importers.shapes import agreeing, only_inputs
from openane.importers.step import ImportStep, TypedErrors, in_half, to_half, unknown_operator
from openane.importers.torch.step import TorchStep as TorchStep
from openane.ops.build import GraphBuilder

X = np.linspace(-6, 6, 49, dtype=np.float32)


def started() -> tuple[ImportStep, Value]:
    builder = GraphBuilder()
    return ImportStep("Format Op 'it'", "y", builder), builder.input("x", "fp32", X.shape)


def test_nodes_are_named_and_labelled_after_the_operator() -> None:
    step, x = started()
    made = composites.hard_swish(step, x)
    nodes = step.builder.finish([made]).nodes
    assert [(node.name, node.source) for node in nodes] == [("y_gate", "Format Op 'it'"), ("y", "Format Op 'it'")]


def test_every_format_has_the_same_step() -> None:
    assert all(issubclass(each, ImportStep) for each in (OnnxStep, TorchStep, CoreMLLayer, EspressoLayer, Unit))
    for each in (OnnxStep, TorchStep, CoreMLLayer, EspressoLayer, Unit):
        assert not {"add", "add_all", "cast", "reshaped", "front", "refuse"} & vars(each).keys(), each.__module__


def test_what_has_it_already_is_left_alone() -> None:
    step, x = started()
    assert step.cast(x, "fp32") is x
    assert step.reshaped(x, X.shape) is x
    assert step.cast(x, "fp16").dtype == "fp16"
    assert step.reshaped(x, (7, 7)).shape == (7, 7)


def test_several_results_are_taken_as_several() -> None:
    step, x = started()
    with pytest.raises(GraphError, match=r"Format Op 'it': split has 7 results"):
        step.add("split", x=x, num_splits=7, axis=0)
    assert len(step.add_all("split", "parts", x=x, num_splits=7, axis=0)) == 7


def test_axes_count_from_the_front() -> None:
    step, _ = started()
    assert [step.front(axis, 3) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    assert step.front(3, 3, end=True) == 3
    for axis, end in ((3, False), (-4, False), (4, True)):
        with pytest.raises(GraphError, match=r"axis must be in -3\.\."):
            step.front(axis, 3, end=end)


def test_errors_say_what_the_format_calls_it() -> None:
    step, _ = started()
    assert "mode is not supported" in str(step.refuse("mode", 3, "mode 1"))
    assert [each.stated for each in (OnnxStep, TorchStep)] == ["attribute", "argument"]


def test_what_python_raises_is_typed() -> None:
    for kind in (ValueError, KeyError, IndexError, ZeroDivisionError, AttributeError):
        with pytest.raises(GraphError, match=r"it: malformed node: .*no"), TypedErrors("it", "malformed node"):
            raise kind("no")
    with pytest.raises(UnsupportedError, match="is known already"), TypedErrors("it", "malformed node"):
        raise UnsupportedError("it", "is known already")


def test_unknown_operators_are_told_the_nearest() -> None:
    known = ["HardSwish", "Relu"]
    assert "nearest supported: HardSwish" in str(unknown_operator("it", "HardSwisch", known, "write it otherwise"))
    assert "write it otherwise" in str(unknown_operator("it", "Zzz", known, "write it otherwise"))


def test_numbers_beyond_fp16_are_refused() -> None:
    array = np.array([1.0, -7e4, np.inf, 65504.0], np.float32)
    with pytest.raises(GraphError, match="'w' does not fit fp16: its largest magnitude is 70000, the limit is 65504"):
        to_half(array, "constant 'w'")
    half, lost = in_half(array)
    assert lost.tolist() == [False, True, False, False]
    assert half.dtype == np.float16
    assert np.isinf(to_half(np.array([np.inf]), "it")).all()


def test_shapes_are_for_inputs_and_agree() -> None:
    with pytest.raises(GraphError, match="'z', which is no input; inputs are x, y"):
        only_inputs(["x", "z"], ["x", "y"])
    only_inputs(["x"], ["x", "y"])
    graph = Graph((Value("x", TensorType("fp16", (2, 3))),), (), ())
    assert agreeing(graph, {"x": [2, 3]}, "the file") is graph
    with pytest.raises(GraphError, match=r"shape \[2\] for input 'x': the file states x \[2, 3\]"):
        agreeing(graph, {"x": [2]}, "the file")
