"""The step of products and the width of sums."""

from openane.experiments.forms import linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "product_rounding", "Are products rounded to 2^-16 and added exactly?", Kind.VALUES,
    ("rule/all/products",),
    (Trial("512 products", linear(4, 512, 8)),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("float32", "products are added in float32", "float32"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=9)
