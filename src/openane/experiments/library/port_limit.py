"""How many inputs a program may have."""

from openane.experiments.forms import many_inputs
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "port_limit", "Are programs with 24 inputs taken?", Kind.INTERFACE,
    ("interface/ports",),
    (Trial("24 inputs", many_inputs(24, (1, 4, 8, 8))),),
    (Hypothesis("taken", "they are taken"),
     Hypothesis("refused", "more than 20 ports are refused", "refuse ports>20")),
    value=5)
