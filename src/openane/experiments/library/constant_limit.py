"""How large the constants of a program may be."""

from openane.experiments.forms import linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "constant_limit", "Are programs with 2 MiB of constants taken?", Kind.INTERFACE,
    ("interface/constants", "limit/*/kernel_memory"),
    (Trial("2 MiB", linear(1, 1024, 1024)),),
    (Hypothesis("taken", "they are taken"),
     Hypothesis("refused", "more than one million bytes are refused", "refuse constants>1000000")),
    value=5)
