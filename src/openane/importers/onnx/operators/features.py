"""What prepares features in front of a model of ai.onnx.ml: missing numbers filled in, categories of numbers as columns
of ones and zeros, and numbers in place of others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.step import Handler, OnnxStep, Operand

EXACT = 2048
"""Whole numbers up to it are exact in fp16."""


def _listed(step: OnnxStep, *names: str) -> np.ndarray:
    """The numbers under the first of some attributes that is there. UnsupportedError where there are texts in place of
    them."""
    for name in names:
        if step.attributes.get(name):
            array = np.asarray(step.attributes[name])
            if array.dtype.kind not in "iuf" or array.ndim != 1:
                raise GraphError(f"{step.label}: attribute {name!r} must hold numbers")
            return array
    raise UnsupportedError(step.label, "categories are numbers", found="none under " + " or ".join(names),
                           remedy="encode texts before the model, on the host")


def _imputer(step: OnnxStep) -> Operand:
    """Numbers in place of what stands for a missing one: by itself what is no number."""
    x = step.number(0)
    values = _listed(step, "imputed_value_floats", "imputed_value_int64s")
    if values.size not in (1, x.shape[-1]):
        raise GraphError(f"{step.label}: imputes {values.size} numbers for {x.shape[-1]} columns")
    whole = x.dtype != "fp16"
    missing = step.integer("replaced_value_int64", 0) if whole else \
        float(step.attributes.get("replaced_value_float", np.nan))
    filled = values.astype(np.int32) if whole else step.constants.half(values, step.name)
    if np.isnan(missing):
        cond = step.add("not_equal", "missing", x=x, y=x)
    else:
        cond = step.add("equal", "missing", x=x, y=np.asarray(missing, np.int32 if whole else np.float16))
    return step.add("select", cond=cond, a=filled if filled.size > 1 else filled.reshape(()), b=x)


def _hits(step: OnnxStep, keys: np.ndarray) -> Value:
    """Whether each element is each of some numbers, in a new last axis, as ones and zeros."""
    x = step.number(0)
    known = keys.astype(np.int32) if x.dtype != "fp16" else step.constants.half(keys, step.name)
    same = step.add("equal", "same", x=step.reshaped(x, (*x.shape, 1), "column"), y=known)
    return step.cast(same, "fp16", "hits")


def _one_hot(step: OnnxStep) -> Operand:
    """A column for every category; elements that are none of them have no one."""
    return _hits(step, _listed(step, "cats_int64s"))


def _label_encoder(step: OnnxStep) -> Operand:
    """The number that belongs to another one, or the default."""
    keys, values = (_listed(step, f"{name}_int64s", f"{name}_floats") for name in ("keys", "values"))
    whole = values.dtype.kind != "f"
    default = float(step.integer("default_int64", -1)) if whole else step.real_attribute("default_float", 0.0)
    if keys.size != values.size:
        raise GraphError(f"{step.label}: has {keys.size} keys and {values.size} values")
    if np.isnan(keys).any() or (whole and np.abs([*values, default]).max() > EXACT):
        raise step.refuse("values", "a key that is no number, or a value beyond 2048", "numbers that fp16 counts")
    changes = step.constants.half((values - default).astype(np.float32).reshape(1, -1), step.name)
    changed = step.add("linear", "changed", x=_hits(step, keys), weight=changes)
    found = step.add("add", "found", x=step.reshaped(changed, step.number(0).shape, "values"), y=default)
    return step.cast(found, "int32" if whole else "fp16")


OPERATORS: Mapping[str, Handler] = {
    "ai.onnx.ml:Imputer": _imputer, "ai.onnx.ml:LabelEncoder": _label_encoder, "ai.onnx.ml:OneHotEncoder": _one_hot,
}
