"""The multiply-accumulate array's clock.

An array that is faster than the timing model has it waits for L2 on M5 and M6, so that nothing here would show it.
"""

from openane.bench.programs import chain_conv3x3
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph


def _chain() -> Graph:
    return chain_conv3x3(32, 256, 64, 64)


EXPERIMENT = Experiment(
    "array_clock", "How fast does the array multiply and add?", Kind.TIMES,
    ("figure/*/clock",),
    (Trial("32 of 3x3, 256 channels", _chain),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate clock*0.5"),
     Hypothesis("a quarter", "a quarter as fast", "rate clock*0.25")),
    value=8)
