"""The scratchpad's clock."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "l2_clock", "How fast does the planar engine work on tensors in L2?", Kind.TIMES,
    ("figure/*/l2_clock", "limit/*/l2_size"),
    (Trial("chain in L2", chain((1, 32, 64, 64), *((("square", {}), ("abs", {})) * 150))),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate l2_clock*0.5"),
     Hypothesis("twice", "twice as fast", "rate l2_clock*2"),
     Hypothesis("a quarter", "a quarter as fast", "rate l2_clock*0.25")),
    value=6)
