"""The function sqrt, as programs of this compiler compute it."""

from openane.experiments.forms import one, positive
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "square_root", "Does sqrt come out as the simulator reads its table or root?", Kind.VALUES,
    ("fingerprint/sqrt/*", "rule/all/tables"),
    (Trial("one plane", one("sqrt", (1, 4, 16, 16)), positive),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("nothing", "nothing is stored", "store nothing"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=4)
