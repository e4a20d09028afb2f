"""Pooling: on which side the padding lies, and whether it is obeyed."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

POOL = {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1]}

EXPERIMENT = Experiment(
    "pool_padding", "Does a pool begin its windows where the padding fields say?", Kind.VALUES,
    ("inferred/*/pooling", "field/*/Common.ConvCfg.Px", "field/*/Common.ConvCfg.Py"),
    (Trial("maximum", one("max_pool", (1, 4, 9, 9), **POOL)),
     Trial("average", one("avg_pool", (1, 4, 9, 9), **POOL))),
    (Hypothesis("obeyed", "windows begin as many elements before the first as the fields say"),
     Hypothesis("ignored", "windows begin at the first element", "reset Pooling.padding"),
     Hypothesis("hangs", "the engine does not end such a task", "hang Pooling")),
    Risk.NEW, value=5)
