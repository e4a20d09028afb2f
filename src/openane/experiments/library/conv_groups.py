"""Convolutions in groups."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "conv_groups", "Do grouped convolutions pair channels as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("two groups", conv(8, 8, (6, 6), groups=2)),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=5)
