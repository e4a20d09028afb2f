"""Convolutions: paddings larger than Apple's programs have."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "conv_largest_padding", "Does the engine take large paddings?", Kind.VALUES,
    ("limit/*/padding",),
    (Trial("14 on each side", conv(1, 1, (3, 16), (1, 29), pad_type="custom", pad=[0, 0, 14, 14])),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "windows begin at the first element", "reset Convolution.padding"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=3)
