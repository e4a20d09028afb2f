"""Slices of the width that begin inside."""

from openane.experiments.forms import large, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "width_slice", "Does a slice of the width go through a gain of 16?", Kind.VALUES,
    ("rule/all/width-crop-gain",),
    (Trial("from the third", one("slice_by_size", (1, 4, 8, 32), begin=[0, 0, 0, 3], size=[1, 4, 8, 16]), large),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("gain", "magnitudes of 4095 and more become infinite", "read crop-gain"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=7)
