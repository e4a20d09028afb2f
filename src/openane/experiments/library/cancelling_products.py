"""Products that cancel, added by the multiply-accumulate array."""

from openane.experiments.forms import ones_product, peaks
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "cancelling_products", "Do products of 4096 and more beside ones cancel exactly?", Kind.VALUES,
    ("fingerprint/linear/*",),
    (Trial("times ones", ones_product(48), peaks),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("earlier", "sums are infinite from 2^14 on", "store early-infinity"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=9)
