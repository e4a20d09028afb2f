"""Tensors of safetensors files, read by name when they are asked for, so that a checkpoint is never in memory twice.

The files are read by the `safetensors` library. bfloat16 has no numpy type of its own: `ml_dtypes` gives it one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.importers.files import is_there
from openane.models.closing import Closing
from openane.models.eight_bits import is_beside, real, require_readable, scales_of
from openane.ops.halves import LARGEST
from openane.version import pip_line

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


class Tensors(Closing, Mapping[str, np.ndarray]):
    """The tensors of one or several safetensors files by name; use it in a `with` statement, or close it. Weights of 8
    bits are given as the numbers they stand for (eight_bits), without the scales beside them.

    FormatError when a file is not one; UnsupportedError with the pip line where the library is missing, and for
    weights in a compressed form that is not read.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        library = _library()
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        try:
            for file in files:
                opened = self._stack.enter_context(_opened(library, file))
                self._files |= dict.fromkeys(opened.keys(), opened)
            require_readable(self._files)
        except BaseException:
            self._stack.close()
            raise

    def __getitem__(self, name: str) -> np.ndarray:
        found, beside = self._read(name), scales_of(name, self._files)
        return real(name, found, beside, self._read) if found.dtype == np.int8 and beside else found

    def _read(self, name: str) -> np.ndarray:
        file = self._files[name]
        try:
            found: np.ndarray = file.get_tensor(name)
        except Exception as error:  # the library raises kinds of its own
            raise FormatError(f"tensor {name!r} cannot be read: {error}") from None
        return found.astype(np.float32) if found.dtype.kind == "V" or found.dtype.name == "bfloat16" else found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._files if not is_beside(name, self._files))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def close(self) -> None:
        """Closes the files."""
        self._files = {}
        self._stack.close()


def required(tensors: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor as it is stored. FormatError when it is missing, has another shape than `shape`, or does not hold floats
    that fp16 holds, too."""
    if name not in tensors:
        raise FormatError("a weight is missing", expected=name, found=f"{len(tensors)} others")
    found = np.asarray(tensors[name])
    if found.shape != shape:
        raise FormatError(f"weight {name}", expected=list(shape), found=list(found.shape))
    if found.dtype.kind != "f" or not -LARGEST <= found.min() <= found.max() <= LARGEST:  # NaN is in no range
        what = found.dtype if found.dtype.kind != "f" else f"{found.min()} to {found.max()}"
        raise FormatError(f"weight {name}", expected=f"floats within {LARGEST:g}, which fp16 holds", found=what)
    return found


def checkpoint(folder: Path) -> Tensors:
    """The weights of a Hugging Face directory: one file, or those its index names. FormatError when there are none."""
    index = folder / INDEX
    if not index.is_file():
        if not (folder / SINGLE).is_file():
            raise FormatError(f"{folder} holds no weights", expected=f"{SINGLE} or {INDEX}", found="neither")
        return Tensors([folder / SINGLE])
    try:
        names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{INDEX}", expected="a weight_map of names to files", found="something else") from None
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise FormatError(f"{INDEX}", expected="names of files beside it", found=sorted(map(str, names))[:3])
    return Tensors([folder / name for name in sorted(names)])


def _library() -> Any:
    try:
        import ml_dtypes  # noqa: F401  bfloat16 becomes a numpy type by its import
        import safetensors
    except ImportError as missing:
        raise UnsupportedError("reading safetensors", f"needs the {missing.name} package",
                               remedy=pip_line("llm")) from None
    return safetensors


def _opened(library: Any, file: Path) -> Any:
    if not is_there(file):
        raise FormatError(f"{file.name!r:.120} is missing: the weights are to be in it")
    try:
        return library.safe_open(str(file), framework="numpy")
    except (library.SafetensorError, OSError) as error:
        raise FormatError(f"{file.name} is not a safetensors file: {error}") from None
