"""Zeros with a sign."""

from openane.experiments.forms import one, special, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "signed_zero", "Does a zero lose its sign as it is read?", Kind.VALUES,
    ("rule/all/zero-without-sign",),
    (Trial("reciprocal", one("inverse", (1, 4, 8, 8)), special),
     Trial("sum of two", two("add", (1, 4, 8, 8)), special)),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("kept", "a negative zero stays one", "read signed-zero"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=6)
