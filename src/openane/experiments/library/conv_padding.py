"""Convolutions: where the padding fields put the first window."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "conv_padding", "Does a convolution begin its windows where the padding fields say?", Kind.VALUES,
    ("inferred/*/0", "limit/*/padding"),
    (Trial("3x3, one all around", conv(4, 4, (9, 9), pad_type="custom", pad=[1, 1, 1, 1])),
     Trial("5x3, more above", conv(4, 4, (9, 9), (5, 3), pad_type="custom", pad=[3, 1, 0, 1]))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "windows begin at the first element", "reset Convolution.padding"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=7)
