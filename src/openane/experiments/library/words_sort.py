"""The unit that compares and sorts."""

from openane.experiments.forms import conv, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.RcasConfig.*",)

EXPERIMENT = Experiment(
    "words_sort", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.RcasConfig.*",),
    (Trial("softmax", one("softmax", (16, 64), axis=-1), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.RcasConfig.Mode=1", otherwise=True)),
    value=3, generations=("h15", "h16", "h17", "h18"))
