"""Convolutions with a third axis."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "conv_depth", "Do windows with depth read and pad as simulated?", Kind.VALUES,
    ("inferred/*/0", "field/*/Common.ConvCfg3d.*"),
    (Trial("3x3x3", conv(4, 4, (5, 6, 6), (3, 3, 3))),
     Trial("padded", conv(2, 2, (5, 6, 6), (3, 1, 1), pad_type="custom", pad=[1, 1, 0, 0, 0, 0])),
     Trial("stride 2", conv(2, 2, (5, 6, 6), (3, 1, 1), strides=[2, 1, 1]))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=5)
