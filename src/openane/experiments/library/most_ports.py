"""As many ports as an interface is said to take. Later generations have no base address for as many."""

from openane.experiments.forms import many_inputs
from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial

EXPERIMENT = Experiment(
    "most_ports", "Are programs with 28 ports taken?", Kind.INTERFACE,
    ("interface/ports",),
    (Trial("27 inputs, one output", many_inputs(27, (1, 4, 8, 8))),),
    (Hypothesis("taken", "they are taken"),
     Hypothesis("refused", "more than 27 ports are refused", "refuse ports>27")),
    Risk.NEW, value=4, generations=("h13", "h14"))
