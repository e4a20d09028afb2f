"""Operators of ONNX's domain ai.onnx.ml, one at a time beside onnxruntime: what scikit-learn's models are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from openane.errors import AneError
from openane.importers.onnx import load_onnx
from openane.ops.evaluate import evaluate

THREE = {"coefficients": [1.0, -2.0, 0.5, 0.25, 3.0, -1.0], "intercepts": [0.5, 0.0, -1.0]}
VECTORS = {"support_vectors": [1.0, 0.5, -1.0, 2.0, 0.0, -0.5], "coefficients": [1.0, -0.5, 0.75], "rho": [-0.25],
           "n_supports": 3}
TWO = {"coefficients": [1.0, -2.0], "intercepts": [0.5]}


def _model(op: str, results: int, constants: dict[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64 if results == 2 else TensorProto.FLOAT, None),
               helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)][:results]
    node = helper.make_node(op, ["x", *constants], [port.name for port in outputs], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 2))], outputs,
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


@pytest.mark.parametrize(("op", "results", "constants", "attributes"), [
    ("Scaler", 1, {}, {"offset": [0.5, -1.0], "scale": [2.0, 0.25]}),
    ("Scaler", 1, {}, {"offset": [2.0], "scale": [3.0]}),
    ("Binarizer", 1, {}, {"threshold": 0.25}), ("Normalizer", 1, {}, {"norm": "L1"}),
    ("Normalizer", 1, {}, {"norm": "L2"}), ("FeatureVectorizer", 1, {}, {"inputdimensions": [2]}),
    ("ArrayFeatureExtractor", 1, {"places": np.array([1, 0, 1])}, {}),
    ("LinearRegressor", 1, {}, TWO), ("LinearRegressor", 1, {}, {**THREE, "targets": 3}),
    ("LinearClassifier", 2, {}, {**THREE, "classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"}),
    ("LinearClassifier", 2, {}, {**THREE, "classlabels_ints": [7, 3, 9], "post_transform": "LOGISTIC"}),
    ("LinearClassifier", 2, {}, {**THREE, "classlabels_ints": [0, 1, 2]}),
    ("LinearClassifier", 2, {}, {**TWO, "classlabels_ints": [0, 1], "post_transform": "LOGISTIC"}),
    ("SVMRegressor", 1, {}, {"coefficients": [0.5, -1.0], "rho": [0.25], "kernel_type": "LINEAR",
                             "kernel_params": [0.5, 0.0, 3.0]}),
    *(("SVMRegressor", 1, {}, {**VECTORS, "kernel_type": kernel, "one_class": one,
                               "kernel_params": [0.5, 0.25, degree]})
      for kernel, one, degree in (("LINEAR", 0, 3), ("RBF", 0, 3), ("RBF", 1, 3), ("POLY", 0, 2), ("POLY", 0, 3),
                                  ("SIGMOID", 0, 3)))])
def test_as_onnxruntime_computes(op: str, results: int, constants: dict[str, np.ndarray],
                                 attributes: dict[str, Any]) -> None:
    model = _model(op, results, constants, **attributes)
    x = np.random.default_rng(5).standard_normal((5, 2)).astype(np.float16).astype(np.float32)
    x[3] = 0
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = evaluate(load_onnx(model), {"x": x})
    for port, wanted in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
        assert found[port.name].shape == wanted.shape
        np.testing.assert_allclose(found[port.name], wanted, atol=2e-3)


def test_labels_of_computed_places() -> None:
    """As a network of scikit-learn chooses its class."""
    nodes = [helper.make_node("ArgMax", ["x"], ["place"], axis=1),
             helper.make_node("ArrayFeatureExtractor", ["labels", "place"], ["y"], domain="ai.onnx.ml")]
    for labels in ([0, 1, 2], [5, 3, 8]):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3))],
                                  [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
                                  [numpy_helper.from_array(np.array(labels), "labels")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                        helper.make_opsetid("ai.onnx.ml", 3)])
        found = load_onnx(model)
        assert any(node.op == "gather" for node in found.nodes) == (labels != [0, 1, 2])
        x = np.eye(4, 3, 1, dtype=np.float32)
        np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], [[labels[i] for i in (1, 2, 0, 0)]])


@pytest.mark.parametrize(("op", "attributes", "says"), [
    ("LinearClassifier", {**THREE, "classlabels_strings": ["a", "b", "c"]}, "classes that have names"),
    ("LinearClassifier", {**THREE, "classlabels_ints": [0, 1]}, "2 results of 2 numbers have 4 coefficients"),
    ("LinearRegressor", {**TWO, "post_transform": "PROBIT"}, "PROBIT"), ("Normalizer", {"norm": "L3"}, "L3"),
    ("Scaler", {"scale": 3}, "must hold numbers"), ("LinearRegressor", {}, "must hold numbers")])
def test_what_is_refused(op: str, attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(AneError, match=says):
        load_onnx(_model(op, 2 if op == "LinearClassifier" else 1, {}, **attributes))


FEATURES: list[tuple[str, str, dict[str, Any]]] = [
    ("Imputer", "float", {"imputed_value_floats": [0.5, -1.0], "replaced_value_float": float("nan")}),
    ("Imputer", "float", {"imputed_value_floats": [7.0], "replaced_value_float": 2.0}),
    ("Imputer", "int64", {"imputed_value_int64s": [5, 6], "replaced_value_int64": 1}),
    ("OneHotEncoder", "int64", {"cats_int64s": [0, 1, 3], "zeros": 1}),
    ("OneHotEncoder", "float", {"cats_int64s": [0, 1, 3], "zeros": 1}),
    ("LabelEncoder", "int64", {"keys_int64s": [0, 1, 2], "values_floats": [0.5, -2.0, 3.25], "default_float": -0.5}),
    ("LabelEncoder", "float", {"keys_floats": [0.0, 2.0, 1.0], "values_int64s": [70, 3, 1999], "default_int64": -4}),
    ("LabelEncoder", "int64", {"keys_int64s": [2, 3], "values_int64s": [1, 2]}),
]


def _feature_model(op: str, kind: str, attributes: dict[str, Any]) -> onnx.ModelProto:
    whole = "values_int64s" in attributes or "imputed_value_int64s" in attributes
    element = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64}
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", element[kind], (4, 2))],
                              [helper.make_tensor_value_info("y", element["int64" if whole else "float"], None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


@pytest.mark.parametrize(("op", "kind", "attributes"), FEATURES)
def test_features_are_prepared(op: str, kind: str, attributes: dict[str, Any]) -> None:
    model = _feature_model(op, kind, attributes)
    x = np.array([[0, 1], [2, 3], [1, 0], [3, 2]], np.float32 if kind == "float" else np.int64)
    if np.isnan(attributes.get("replaced_value_float", 0.0)):
        x[1] = np.nan
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    found = evaluate(load_onnx(model), {"x": x})["y"]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize(("op", "attributes", "message"), [
    ("OneHotEncoder", {"cats_strings": ["a", "b"]}, "encode texts before the model"),
    ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "encode texts before the model"),
    ("LabelEncoder", {"keys_int64s": [1, 2], "values_int64s": [1]}, "2 keys and 1 values"),
    ("LabelEncoder", {"keys_int64s": [1, 2], "values_int64s": [1, 99999]}, "fp16 counts"),
    ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0]}, "imputes 3 numbers for 2 columns"),
])
def test_features_that_are_refused(op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(AneError, match=message):
        load_onnx(_feature_model(op, "int64" if op == "LabelEncoder" else "float", attributes))
