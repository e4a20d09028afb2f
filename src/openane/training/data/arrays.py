"""Examples from numpy's files: two .npy files, or two arrays of an .npz file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.configuration import within
from openane.errors import FormatError
from openane.numpy_files import read_npy, read_npz
from openane.training.data.examples import Pairs, Split

LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Arrays:
    """`inputs` and `labels` name .npy files, or arrays of the .npz file `file`. A shuffled `holdout` of the examples is
    kept to judge by; `scale` multiplies the inputs."""

    inputs: str = "inputs"
    labels: str = "labels"
    file: str = ""
    holdout: float = within(0.2, low=0.0001, high=0.9999)
    scale: float = 1.0
    seed: int = within(0, low=0)

    def load(self, base: Path) -> Split:
        """See `Source.load`. Labels are whole numbers from 0, one per input; inputs must be finite in fp16."""
        inputs, labels = self._array(base, self.inputs), self._array(base, self.labels)
        if inputs.dtype.kind not in "fiub" or inputs.ndim < 2:
            raise FormatError(f"data.inputs {self.inputs!r} must be numbers of rank 2 or more",
                              expected="[examples, ...]", found=f"{inputs.dtype} {list(inputs.shape)}")
        if labels.dtype.kind not in "iu" or labels.shape != (len(inputs),) or labels.size < 2 or labels.min() < 0:
            raise FormatError(f"data.labels {self.labels!r} must be one whole number from 0 for each input",
                              expected=[len(inputs)], found=f"{labels.dtype} {list(labels.shape)}")
        order = np.random.default_rng(self.seed).permutation(len(inputs))
        cut = min(max(1, len(inputs) - round(len(inputs) * self.holdout)), len(inputs) - 1)
        inputs = self._checked(inputs, base)
        first, rest = order[:cut], order[cut:]
        return Split(Pairs(inputs[first], labels[first]), Pairs(inputs[rest], labels[rest]), int(labels.max()) + 1)

    def _array(self, base: Path, name: str) -> np.ndarray:
        if self.file:
            return read_npz(base / self.file, [name])[name]
        return read_npy(base / name, ": name it as data.file, and its arrays as inputs and labels")

    def _checked(self, inputs: np.ndarray, base: Path) -> np.ndarray:
        """The inputs times `scale`, in fp32. FormatError where fp16, in which the engine reads them, holds them not."""
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = inputs.astype(np.float32) * np.float32(self.scale)
        largest = max(abs(float(scaled.max(initial=0))), abs(float(scaled.min(initial=0))))
        if not largest <= LARGEST:
            place, times = base / (self.file or self.inputs), f" times data.scale {self.scale:g}" * (self.scale != 1)
            raise FormatError(f"{place}: array {self.inputs!r} has elements{times} that fp16 does not hold; normalise "
                              "them to about -1 to 1, with data.scale or in the file",
                              expected=f"finite numbers of at most {LARGEST:g}",
                              found="NaN" if np.isnan(largest) else f"{largest:g}")
        return scaled
