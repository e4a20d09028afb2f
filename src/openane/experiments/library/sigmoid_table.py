"""The function sigmoid, as programs of this compiler compute it."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "sigmoid_table", "Does sigmoid come out as the simulator reads its table or root?", Kind.VALUES,
    ("fingerprint/sigmoid/*", "rule/all/tables"),
    (Trial("one plane", one("sigmoid", (1, 4, 16, 16))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("nothing", "nothing is stored", "store nothing"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=5)
