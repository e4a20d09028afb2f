"""What a call costs around a program."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "dispatch_cost", "How long does a call take that has next to nothing to do?", Kind.TIMES,
    ("figure/*/dispatch",),
    (Trial("64 numbers", one("relu", (1, 64))),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as long", "rate dispatch*0.5"),
     Hypothesis("twice", "twice as long", "rate dispatch*2"),
     Hypothesis("four times", "four times as long", "rate dispatch*4")),
    value=9)
