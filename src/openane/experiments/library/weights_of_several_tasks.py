"""Where weights begin in programs of several tasks."""

from openane.experiments.forms import chain, weights
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "weights_of_several_tasks", "Does every task find its own weights?", Kind.VALUES,
    ("inferred/*/1",),
    (Trial("three layers", chain((4, 64), ("linear", {"weight": weights(96, 64)}), ("relu", {}), ("linear",
                {"weight": weights(64, 96)}), ("linear", {"weight": weights(32, 64)}))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=7)
