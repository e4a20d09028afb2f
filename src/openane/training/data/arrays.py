"""Examples from numpy's files: two .npy files, or two arrays of an .npz file."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.errors import FormatError
from openane.training.data.examples import Pairs, Split
from openane.training.fields import within


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
        """See `Source.load`. Labels are whole numbers from 0, one per input."""
        inputs, labels = self._array(base, self.inputs), self._array(base, self.labels)
        if inputs.dtype.kind not in "fiub" or inputs.ndim < 2:
            raise FormatError(f"data.inputs {self.inputs!r} must be numbers of rank 2 or more",
                              expected="[examples, ...]", found=f"{inputs.dtype} {list(inputs.shape)}")
        if labels.dtype.kind not in "iu" or labels.shape != (len(inputs),) or labels.size < 2 or labels.min() < 0:
            raise FormatError(f"data.labels {self.labels!r} must be one whole number from 0 for each input",
                              expected=[len(inputs)], found=f"{labels.dtype} {list(labels.shape)}")
        order = np.random.default_rng(self.seed).permutation(len(inputs))
        cut = min(max(1, len(inputs) - round(len(inputs) * self.holdout)), len(inputs) - 1)
        inputs = inputs.astype(np.float32) * np.float32(self.scale)
        first, rest = order[:cut], order[cut:]
        return Split(Pairs(inputs[first], labels[first]), Pairs(inputs[rest], labels[rest]), int(labels.max()) + 1)

    def _array(self, base: Path, name: str) -> np.ndarray:
        path = base / (self.file or name)
        try:
            loaded = np.load(path, mmap_mode=None if self.file else "r", allow_pickle=False)
            found = loaded[name] if self.file else loaded
        except KeyError:
            raise FormatError(f"{path} has no array {name!r}; it has {', '.join(loaded.files)}") from None
        except (ValueError, EOFError, zipfile.BadZipFile, IndexError) as error:
            raise FormatError(f"{path} cannot be read as numpy's {'npz' if self.file else 'npy'}: {error}") from None
        if not isinstance(found, np.ndarray):
            raise FormatError(f"{path} holds several arrays: name it as data.file, and its arrays as inputs and labels")
        return found
