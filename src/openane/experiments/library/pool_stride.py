"""Pooling: steps between windows."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "pool_stride", "Does a pool step as the stride fields say, down and across?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("2 down, 1 across", one("max_pool", (1, 4, 9, 9), kernel_sizes=[3, 3], strides=[2, 1], pad_type="valid")),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "windows follow one another", "reset Pooling.stride"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Pooling")),
    Risk.NEW, value=5)
