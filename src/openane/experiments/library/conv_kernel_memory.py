"""Convolutions: coefficients of a task."""

from openane.experiments.forms import linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "conv_kernel_memory",
    "Does one task take as many coefficients as the kernel memory is believed to hold?",
    Kind.VALUES,
    ("limit/*/kernel_memory",),
    (Trial("2 MiB", linear(2, 1024, 1024)),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=2)
