"""Inputs to measure a model on, read from files (ops.drawn_inputs draws them)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from openane.errors import FormatError, GraphError
from openane.graph import Graph, Value, numpy_type
from openane.numpy_files import read_npy, read_npz
from openane.quantization.measuring import Sample

NUMBERS = "biuf"
"""Kinds of numpy's element types that are numbers here."""


def read_samples(path: Path) -> list[Sample]:
    """The samples of a file or folder: an .npz has an array for every input by its name, a folder has such files, or
    .npy files named after the inputs. FormatError for other files."""
    found = list(_samples(path))
    if not found:
        raise FormatError(f"{path} holds no samples", expected="an .npz file, a folder of them, or .npy files named "
                          "after the inputs", found="none")
    return found


def _samples(path: Path) -> Iterator[Sample]:
    if not path.is_dir():
        if path.suffix == ".npy":
            raise FormatError(f"{path} is one array of a model of several inputs", expected=f"NAME={path.name}, for "
                              "each of them, or an .npz file with all", found="no name")
        yield read_npz(path)
        return
    yield from map(read_npz, sorted(path.glob("*.npz")))
    single = {file.stem: read_npy(file) for file in sorted(path.glob("*.npy"))}
    if single:
        yield single


def fitting(sample: Sample, graph: Graph) -> Sample:
    """The sample in the inputs' shapes and element types. GraphError naming the input that is missing, unknown, or of
    another number of elements."""
    known: Mapping[str, Value] = {value.name: value for value in graph.inputs}
    wrong: Sequence[str] = sorted(set(known) ^ set(sample))
    if wrong:
        raise GraphError(f"the sample {'lacks' if wrong[0] in known else 'has'} {wrong[0]!r}; "
                         f"the model's inputs are {', '.join(known)}")
    for name, value in known.items():
        if sample[name].size != value.type.elements:
            raise GraphError(f"sample {name!r} must have shape {list(value.shape)}; found {list(sample[name].shape)}")
    return {name: _held(name, np.asarray(sample[name]), value).reshape(value.shape) for name, value in known.items()}


def _held(name: str, array: np.ndarray, value: Value) -> np.ndarray:
    """The numbers of a sample in an input's element type. GraphError for what are no numbers, or none it holds."""
    if array.dtype.kind not in NUMBERS:
        raise GraphError(f"sample {name!r} must hold numbers; found {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise GraphError(f"sample {name!r} has numbers that are none (NaN): nothing can be measured on it")
    with np.errstate(all="ignore"):
        found = array.astype(numpy_type(value.dtype))
        lost = np.isfinite(array) & ~np.isfinite(found) if found.dtype.kind == "f" else found != array
    if lost.any():
        raise GraphError(f"sample {name!r} must hold what {value.dtype} can; found {array[lost].flat[0]}")
    return found
