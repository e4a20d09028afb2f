"""Largest of neighbouring channels."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "largest_channel", "Is the maximum over channels taken as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("reduce_max", one("reduce_max", (1, 16, 8, 8), axes=[1], keep_dims=True)),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("nothing", "nothing is stored", "store nothing")),
    value=3)
