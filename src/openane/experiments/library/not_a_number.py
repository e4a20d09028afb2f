"""What is no number, on its way in."""

from openane.experiments.forms import one, special, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "not_a_number", "Is what is no number read as infinity?", Kind.VALUES,
    ("rule/all/not-a-number-in",),
    (Trial("relu", one("relu", (1, 4, 8, 8)), special), Trial("sum of two", two("add", (1, 4, 8, 8)), special)),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("zero", "it is read as zero", "read nan-as-zero"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=8)
