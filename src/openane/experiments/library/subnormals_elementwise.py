"""Subnormal numbers in the planar engine."""

from openane.experiments.forms import small, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "subnormals_elementwise", "Do subnormal numbers pass elementwise operations?", Kind.VALUES,
    ("rule/all/subnormals",),
    (Trial("sum of two", two("add", (1, 4, 8, 8)), small),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("flushed as read", "subnormal operands are zero", "read flush-subnormals"),
     Hypothesis("flushed as stored", "subnormal results are zero", "store flush-subnormals"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=6)
