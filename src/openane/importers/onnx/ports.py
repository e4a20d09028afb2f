"""Inputs and outputs of an ONNX graph: the element types and shapes they declare."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import NUMPY_TYPES, Value
from openane.importers.onnx.dtypes import ENGINE_NAMES, INPUT_NAMES, dtype_name
from openane.importers.onnx.nodes import Proto
from openane.importers.onnx.step import Operand

MOST_STATED = 5
"""Real numbers of an input that somebody may state: scales of a resize are that few, an image is not."""
OPEN = "?"
"""What stands for an open dimension without a name."""


def port_dtype(port: Proto, known: Mapping[str, str] = ENGINE_NAMES) -> str:
    """MIL's name of the element type a port declares, one of `known`. UnsupportedError when it is none."""
    if not port.type.HasField("tensor_type"):
        raise UnsupportedError(f"port {port.name!r}", "ports must be tensors", found=port.type.WhichOneof("value"),
                               remedy="of scikit-learn's classifiers, convert without names of classes beside their "
                                      "probabilities: options={id(model): {'zipmap': False}}")
    return dtype_name(port.type.tensor_type.elem_type, f"port {port.name!r}", known)


def check_shapes(ports: Sequence[Proto]) -> None:
    """UnsupportedError where inputs whose shape nobody gives have symbolic dimensions, with an example for each."""
    open_ones = [port for port in ports if _is_open(port)]
    if not open_ones:
        return
    examples = {port.name: ["1" if isinstance(dim, str) else str(dim) for dim in _declared(port)]
                or ["1", "3", "224", "224"] for port in open_ones}
    asked = " ".join(f"--shape {name}={'x'.join(example)}" for name, example in examples.items())
    python = ", ".join(f'"{name}": [{", ".join(example)}]' for name, example in examples.items())
    one = len(open_ones) == 1
    raise UnsupportedError(", ".join(map(_stated, open_ones)),
                           f"shapes are static and {'this input has' if one else 'these inputs have'} symbolic "
                           "dimensions", remedy=f"give {'its shape' if one else 'their shapes'}, for example {asked}, "
                                                f"in Python shapes={{{python}}}")


def _is_open(port: Proto) -> bool:
    return port.type.HasField("tensor_type") and (not port.type.tensor_type.HasField("shape")
                                                  or any(isinstance(dim, str) for dim in _declared(port)))


def port_shape(port: Proto, given: Sequence[int] | None) -> tuple[int, ...]:
    """The static shape of an input: what the model declares (`check_shapes` has seen to that), or what is `given`."""
    dims = _declared(port)
    if given is None:
        return tuple(map(int, dims))
    if port.type.tensor_type.HasField("shape") and not _fits(given, dims):
        raise GraphError(f"{_stated(port)}: the given shape {list(given)} does not fit")
    return tuple(given)


def is_setting(value: Operand) -> bool:
    """Whether an input is a single integer or truth value: a sample rate, or whether there is a cache."""
    return isinstance(value, Value) and value.dtype != "fp16" and value.type.elements == 1


def is_data(value: Operand) -> bool:
    """Whether an input is another one from run to run, so that nobody states it when a model is compiled."""
    return isinstance(value, Value) and value.dtype == "fp16" and value.type.elements > MOST_STATED


def _declared(port: Proto) -> list[int | str]:
    """The dimensions of an input, a word for open ones."""
    return [dim.dim_param or OPEN if extent is None else extent
            for dim, extent in zip(port.type.tensor_type.shape.dim, _extents(port), strict=True)]


def _stated(port: Proto) -> str:
    return f"input {port.name!r} [{', '.join(map(str, _declared(port)))}]"


def _extents(port: Proto) -> list[int | None]:
    """The extents a port declares, None where one is open: a word, nothing, or a number below 0, as some exporters
    write it."""
    return [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            for dim in port.type.tensor_type.shape.dim]


def _fits(given: Sequence[int], dims: Sequence[int | str]) -> bool:
    """Whether a shape has the dimensions declared, any where that is a word."""
    return len(given) == len(dims) and all(isinstance(dim, str) or dim == extent
                                           for dim, extent in zip(dims, given, strict=True))


def check_declared(port: Proto, value: Value) -> None:
    """A RuntimeWarning when the model declares another shape for an output than its nodes give: exporters leave stale
    ones behind, and runtimes ignore them too."""
    stated = _extents(port)
    if port.type.tensor_type.HasField("shape") and (len(stated) != value.type.rank or any(
            dim is not None and dim != extent for dim, extent in zip(stated, value.shape, strict=True))):
        warnings.warn(f"output {port.name!r}: the model declares {stated}, its nodes give {list(value.shape)}",
                      RuntimeWarning, stacklevel=4)


def port_value(port: Proto, array: np.ndarray) -> np.ndarray:
    """What an input is that is a constant of the run: in the element type the model declares, numbers in as many
    dimensions. GraphError where they do not fit."""
    name = port_dtype(port, INPUT_NAMES)
    wanted = NUMPY_TYPES.get(name, np.dtype(np.float32))
    if wanted.kind in "iu" and array.dtype.kind == "f" and (array != np.rint(array)).any():
        raise GraphError(f"input {port.name!r} holds {wanted} and is given {array.reshape(-1)[:4]}")
    shape = port.type.tensor_type.shape
    missing = len(shape.dim) - array.ndim if port.type.tensor_type.HasField("shape") and array.ndim < 2 else 0
    if missing < 0 and array.size > 1:
        raise GraphError(f"input {port.name!r} is one number and is given {array.size}")
    shaped = array.reshape((1,) * missing + array.shape) if missing >= 0 else array.reshape(())
    return shaped.astype(wanted, copy=False)
