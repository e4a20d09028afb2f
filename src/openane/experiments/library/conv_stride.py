"""Convolutions: steps between windows."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "conv_stride", "Does a convolution step as the stride fields say, down and across?", Kind.VALUES,
    ("inferred/*/0", "limit/*/stride"),
    (Trial("2 both ways", conv(4, 4, (9, 9), strides=[2, 2])),
     Trial("2 down, 1 across", conv(4, 4, (9, 9), strides=[2, 1]))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "windows follow one another", "reset Convolution.stride"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=7)
