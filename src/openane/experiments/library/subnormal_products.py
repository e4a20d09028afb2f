"""Products of subnormal numbers."""

from openane.experiments.forms import ones_product, small
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "subnormal_products", "Do products of subnormal numbers vanish?", Kind.VALUES,
    ("rule/all/subnormals",),
    (Trial("times ones", ones_product(32), small),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("float32", "they are added in float32", "float32"),
     Hypothesis("flushed", "subnormal operands are zero", "read flush-subnormals"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=6)
