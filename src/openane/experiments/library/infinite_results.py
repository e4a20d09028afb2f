"""Results beyond fp16."""

from openane.experiments.forms import large, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "infinite_results", "Do elementwise results beyond fp16 become infinite?", Kind.VALUES,
    ("rule/all/planar-single-precision",),
    (Trial("product of two", two("mul", (8, 4, 4, 4)), large),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("saturates", "they stop at the largest number", "store saturate"),
     Hypothesis("earlier", "they are infinite from 2^14 on", "store early-infinity"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=8)
