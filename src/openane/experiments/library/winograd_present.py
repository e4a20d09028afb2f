"""3x3 convolutions of late generations."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "winograd_present", "Are 3x3 convolutions computed in the Winograd form?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("16 channels", conv(16, 16, (8, 8))),),
    (Hypothesis("winograd", "in the form F(2, 3) along the width, as simulated"),
     Hypothesis("direct", "tap by tap", "direct"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=8, generations=("h17", "h18"))
