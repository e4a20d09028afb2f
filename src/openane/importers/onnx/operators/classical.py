"""Operators of ONNX's domain ai.onnx.ml, as scikit-learn's models are converted to: scaling and linear models. What
they choose by a class's number is chosen by the position of the largest score."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result

_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")
_NORMS = {"L1": "reduce_l1_norm", "L2": "reduce_l2_norm", "MAX": "reduce_max"}


def _numbers(step: OnnxStep, name: str, default: tuple[float, ...] | None = None) -> np.ndarray:
    values = step.attributes.get(name, default)
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        array = np.zeros(0, np.float32)
    if array.ndim != 1 or not array.size:
        raise GraphError(f"{step.label}: attribute {name!r} must hold numbers, found {values!r:.60}")
    return array


def _digits(step: OnnxStep, array: np.ndarray) -> RoundedArray:
    return RoundedArray(step.constants.half(array, step.name), array)


def _scaler(step: OnnxStep) -> Operand:
    """(x - offset) * scale."""
    offset, scale = _numbers(step, "offset", (0.0,)), _numbers(step, "scale", (1.0,))
    centred = step.add("sub", "centred", x=step.real(0), y=_digits(step, offset)) if offset.any() else step.real(0)
    return step.add("mul", x=centred, y=_digits(step, scale))


def _binarizer(step: OnnxStep) -> Operand:
    above = step.add("greater", "above", x=step.real(0), y=step.real_attribute("threshold", 0.0))
    return step.cast(above, "fp16")


def _normalizer(step: OnnxStep) -> Operand:
    """x by the norm of its last axis; rows of zeros stay so."""
    x, norm = step.real(0), step.text("norm", "MAX")
    if norm not in _NORMS:
        raise step.refuse("norm", norm, f"one of {', '.join(_NORMS)}")
    size = step.add(_NORMS[norm], "norm", x=x, axes=[-1], keep_dims=True)
    is_zero = step.add("equal", "zero", x=size, y=0.0)
    return step.add("real_div", x=x, y=step.add("select", "divisor", cond=is_zero, a=np.float16(1), b=size))


def _scores(step: OnnxStep, rows: int) -> Value:
    """x times the coefficients of `rows` results, and the intercepts."""
    x, coefficients = step.real(0), _numbers(step, "coefficients")
    if x.type.rank == 1:
        x = step.reshaped(x, (1, *x.shape), "row")
    if coefficients.size != rows * x.shape[-1]:
        raise GraphError(f"{step.label}: {rows} results of {x.shape[-1]} numbers have {rows * x.shape[-1]} "
                         f"coefficients, found {coefficients.size}")
    bias = _digits(step, _numbers(step, "intercepts")) if step.attributes.get("intercepts") else None
    return step.add("linear", "scores", x=x, weight=_digits(step, coefficients.reshape(rows, -1)), bias=bias)


def _transformed(step: OnnxStep, scores: Value) -> Value:
    transform = step.text("post_transform", "NONE")
    if transform not in _TRANSFORMS:
        raise step.refuse("post_transform", transform, f"one of {', '.join(_TRANSFORMS)}")
    if transform == "NONE":
        return scores
    return step.add("sigmoid", x=scores) if transform == "LOGISTIC" else step.add("softmax", x=scores, axis=-1)


def _linear_regressor(step: OnnxStep) -> Operand:
    return _transformed(step, _scores(step, step.integer("targets", 1)))


def _linear_classifier(step: OnnxStep) -> Result:
    """The class of the largest score, and the scores. One row of coefficients is for the second of two classes: the
    first has its scores negated."""
    labels = _labels(step)
    one = len(labels) == 2 and _numbers(step, "coefficients").size == step.real(0).shape[-1]
    scores = _scores(step, 1 if one else len(labels))
    if one:
        first = step.add("mul", "first", x=scores, y=-1.0)
        scores = step.add("concat", "both", values=(first, scores), axis=-1)
        if step.text("post_transform", "NONE") == "SOFTMAX":
            raise step.refuse("post_transform", "SOFTMAX", "LOGISTIC or NONE for two classes with one score")
    place = step.add("reduce_argmax", "place", x=scores, axis=-1, keep_dims=False)
    return _of_places(step, labels, place), _transformed(step, scores)


def _labels(step: OnnxStep) -> np.ndarray:
    if "classlabels_ints" not in step.attributes:
        raise UnsupportedError(step.label, "results are numbers", found="classes that have names",
                               remedy="fit the model to numbers of classes, and look the names up behind it")
    return np.asarray(step.integers("classlabels_ints"), np.int64)


def _of_places(step: OnnxStep, labels: np.ndarray, places: Value) -> Value:
    """The labels at computed places: the places themselves where labels count from 0."""
    if np.array_equal(labels, np.arange(labels.size)):
        return places
    return step.add("gather", "label", x=labels.astype(np.int32), indices=places, axis=0)


def _feature_extractor(step: OnnxStep) -> Operand:
    """What stands at the places that input 1 has, of the last axis; a vector is a row."""
    table, places = step.operand(0), step.operand(1)
    rows = (1,) if len(table.shape) == 1 else table.shape[:-1]
    if isinstance(places, np.ndarray):
        whole = places.reshape(-1).astype(np.int32)
        picked = step.add("gather", "picked", x=step.number(0), indices=whole, axis=-1)
        return step.reshaped(picked, (*rows, whole.size), "row")
    flat = step.reshaped(places, (places.type.elements,), "places")
    if isinstance(table, np.ndarray) and table.dtype.kind in "iu" and table.size == table.shape[-1]:
        return step.reshaped(_of_places(step, table.reshape(-1), flat), (*rows, flat.shape[0]), "row")
    return step.reshaped(step.add("gather", "picked", x=step.number(0), indices=flat, axis=-1),
                         (*rows, flat.shape[0]), "row")


def _feature_vectorizer(step: OnnxStep) -> Operand:
    return step.add("concat", values=tuple(step.real(index) for index in range(len(step.inputs))), axis=-1)


OPERATORS: Mapping[str, Handler] = {
    "ai.onnx.ml:ArrayFeatureExtractor": _feature_extractor, "ai.onnx.ml:Binarizer": _binarizer,
    "ai.onnx.ml:FeatureVectorizer": _feature_vectorizer, "ai.onnx.ml:LinearClassifier": _linear_classifier,
    "ai.onnx.ml:LinearRegressor": _linear_regressor, "ai.onnx.ml:Normalizer": _normalizer,
    "ai.onnx.ml:Scaler": _scaler,
}
