"""The function gelu, as programs of this compiler compute it."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "gelu_table", "Does gelu come out as the simulator reads its table or root?", Kind.VALUES,
    ("fingerprint/gelu/*", "rule/all/tables"),
    (Trial("one plane", one("gelu", (1, 4, 16, 16))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("nothing", "nothing is stored", "store nothing"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=6)
