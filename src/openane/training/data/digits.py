"""Scikit-learn's handwritten digits: 1797 images of 8x8 pixels, split once and for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.configuration import within
from openane.errors import AneError
from openane.training.data.examples import Pairs, Split

CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """The first `training` of the images, shuffled by `seed`, are learnt from."""

    training: int = within(1437, low=1, high=1796)
    seed: int = within(0, low=0)

    def load(self, base: Path) -> Split:
        """Images fp32 [N, 1, 8, 8] between 0 and 1. AneError where scikit-learn is not installed."""
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise AneError("the digits come with scikit-learn, which is not installed: "
                           "pip install scikit-learn") from None
        digits = load_digits()
        images = (digits.images / 16).astype(np.float32)[:, None]
        order = np.random.default_rng(self.seed).permutation(len(images))
        first, rest = order[:self.training], order[self.training:]
        return Split(Pairs(images[first], digits.target[first]), Pairs(images[rest], digits.target[rest]), CLASSES)
