"""The multiply-accumulate array's clock."""

from openane.bench.programs import chain_conv3x3
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph


def _chain() -> Graph:
    return chain_conv3x3(32, 256, 32, 32)


EXPERIMENT = Experiment(
    "array_clock", "How fast does the array multiply and add?", Kind.TIMES,
    ("figure/*/clock",),
    (Trial("32 of 3x3, 256 channels", _chain),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate clock*0.5"),
     Hypothesis("twice", "twice as fast", "rate clock*2"),
     Hypothesis("a quarter", "a quarter as fast", "rate clock*0.25")),
    value=8)
