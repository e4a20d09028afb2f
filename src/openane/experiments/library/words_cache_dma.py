"""The DMA that brings data into the system's cache."""

from openane.experiments.forms import linear, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("CacheDMA.*",)

EXPERIMENT = Experiment(
    "words_cache_dma", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/CacheDMA.*",),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take CacheDMA.Control.Enable=1", otherwise=True)),
    value=3, generations=("h15", "h16", "h17", "h18"))
