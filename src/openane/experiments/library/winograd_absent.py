"""3x3 convolutions of early generations."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "winograd_absent", "Are 3x3 convolutions computed directly?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("16 channels", conv(16, 16, (8, 8))),),
    (Hypothesis("direct", "tap by tap, as simulated"),
     Hypothesis("winograd", "in the Winograd form F(2, 3) along the width", "winograd"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=8, generations=("h13", "h14", "h15", "h16"))
