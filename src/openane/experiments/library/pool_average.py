"""Pooling: what an average divides by."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "pool_average", "Does an average divide by the whole window, as the final scale says?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("3x3", one("avg_pool", (1, 4, 9, 9), kernel_sizes=[3, 3], strides=[3, 3], pad_type="valid")),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("nothing", "nothing is stored", "store nothing")),
    value=4)
