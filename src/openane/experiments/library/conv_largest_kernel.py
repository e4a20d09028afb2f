"""Convolutions: the largest windows that fields can say."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "conv_largest_kernel", "Does the engine take the largest windows that the fields allow?", Kind.VALUES,
    ("limit/*/kernel_width", "limit/*/kernel_height"),
    (Trial("29 wide", conv(1, 1, (3, 40), (1, 29))), Trial("29 high", conv(1, 1, (40, 3), (29, 1)))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=3)
