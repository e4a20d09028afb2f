"""How much L2 holds."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "l2_capacity", "Do intermediates that fill most of L2 stay whole?", Kind.VALUES,
    ("limit/*/l2_size",),
    (Trial("a megabyte and more", chain((1, 64, 128, 72), ("relu", {}), ("square", {}), ("abs", {}), ("reduce_max",
                {"axes": [-1], "keep_dims": True}))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    Risk.NEW, value=3)
