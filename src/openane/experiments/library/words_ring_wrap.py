"""Rings in L2: where they wrap."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("L2.*Wrap*",)

EXPERIMENT = Experiment(
    "words_ring_wrap", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/L2.*Wrap*",),
    (Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS),
     Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take L2.SourceWrapStart.WrapLen=1", otherwise=True)),
    value=3, generations=("h14", "h16", "h17", "h18"))
