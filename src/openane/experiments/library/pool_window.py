"""Pooling: height and width of windows."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "pool_window", "Which axis of a pooling window is which?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("2 high, 3 wide", one("max_pool", (1, 4, 9, 9), kernel_sizes=[2, 3], strides=[1, 1], pad_type="valid")),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("swapped", "height and width of a window change places", "swap Pooling.kernel"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Pooling")),
    Risk.NEW, value=5)
