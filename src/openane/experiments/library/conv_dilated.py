"""Dilated convolutions, which the engine does in several steps."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "conv_dilated", "Are dilated convolutions computed as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("2 apart", conv(4, 4, (9, 9), dilations=[2, 2])),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=4)
