"""The multiply-accumulate array's clock.

Windows of 5x5 keep the array busy for so long that it never waits for L2, not even one that is twice as fast, and no
generation computes them in another form than they are written.
"""

from openane.experiments.forms import chain, weights
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph


def _layers() -> Graph:
    layer = {"weight": weights(256, 256, 5, 5, scale=0.01), "pad_type": "same"}
    return chain((1, 256, 32, 32), *(("conv", layer),) * 8)()


EXPERIMENT = Experiment(
    "array_clock", "How fast does the array multiply and add?", Kind.TIMES,
    ("figure/*/clock",),
    (Trial("8 of 5x5, 256 channels", _layers),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate clock*0.5"),
     Hypothesis("twice", "twice as fast", "rate clock*2"),
     Hypothesis("a quarter", "a quarter as fast", "rate clock*0.25")),
    value=8)
