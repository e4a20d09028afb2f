"""Constants that fill 16 MiB, the window through which the engine is believed to stream them."""

from openane.experiments.forms import linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "constants_of_16_mib", "Are programs with 16 MiB of constants taken?", Kind.INTERFACE,
    ("interface/constants", "limit/*/kernel_memory"),
    (Trial("16 MiB", linear(1, 2048, 4096)),),
    (Hypothesis("taken", "they are taken"),
     Hypothesis("refused", "16 million bytes and more are refused", "refuse constants>15999999")),
    value=3)
