"""Rows that are padded in L2, and rings of rows."""

from openane.experiments.forms import chain, conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "stride_and_ring", "Do tall tensors that pass through rings in L2 come out as simulated?", Kind.VALUES,
    ("inferred/*/0", "limit/*/l2_size"),
    (Trial("tall copy", chain((1, 8, 96, 33), ("relu", {}), ("transpose", {"perm": [0, 1, 3, 2]}))),
     Trial("3x3 of many rows", conv(8, 8, (96, 33)))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("late", "a task reads before the one before it has written", "race")),
    value=4)
