"""Weights without zeros."""

import numpy as np

from openane.experiments.forms import conv, weights
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial


def _sparse(*shape: int) -> np.ndarray:
    return np.where(np.arange(np.prod(shape)).reshape(shape) % 4, np.float16(0), weights(*shape))


EXPERIMENT = Experiment(
    "sparse_weights", "Are weights that are stored without their zeros read as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("three of four zero", conv(64, 64, (16, 16), data=_sparse, strides=[2, 2])),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=4)
