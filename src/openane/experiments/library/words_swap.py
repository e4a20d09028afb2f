"""Sources whose axes change places."""

from openane.experiments.forms import two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("Common.Broadcast.FirstSwap", "Common.Broadcast.ActiveNE", "Common.Broadcast.PrimarySource")

EXPERIMENT = Experiment(
    "words_swap", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/Common.Broadcast.FirstSwap", "field/*/Common.Broadcast.ActiveNE",
     "field/*/Common.Broadcast.PrimarySource"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("runtime product", two("matmul", (64, 64), (64, 64)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take Common.Broadcast.FirstSwap=1", otherwise=True)),
    value=3)
