"""Convolutions: which axis of a kernel is which."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "conv_kernel_order", "Do kernels of different height and width lie as the simulator reads them?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("1 high, 5 wide", conv(4, 4, (9, 9), (1, 5))), Trial("5 high, 1 wide", conv(4, 4, (9, 9), (5, 1)))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=6)
