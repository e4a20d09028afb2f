"""Where sums of products become infinite."""

from openane.experiments.forms import large, ones_product
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "sum_range", "Is a sum of products infinite from 2^15 on?", Kind.VALUES,
    ("rule/all/accumulator-range",),
    (Trial("sums up to 262144", ones_product(64), large),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("saturates", "sums stop at the largest number", "store saturate"),
     Hypothesis("earlier", "sums are infinite from 2^14 on", "store early-infinity"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=9)
