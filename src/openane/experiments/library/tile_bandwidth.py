"""The path of operands and results: bytes a second."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "tile_bandwidth", "How fast do operands come in and results go out?", Kind.TIMES,
    ("figure/*/tile",),
    (Trial("ten MiB", one("relu", (1, 256, 160, 128))),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate tile*0.5"),
     Hypothesis("twice", "twice as fast", "rate tile*2"),
     Hypothesis("a quarter", "a quarter as fast", "rate tile*0.25")),
    value=8)
