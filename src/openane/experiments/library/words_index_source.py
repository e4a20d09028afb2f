"""Operands that are found by indices."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("L2.Index*", "Common.Broadcast.Index*")

EXPERIMENT = Experiment(
    "words_index_source", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/L2.Index*", "field/*/Common.Broadcast.Index*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("resize", one("upsample_bilinear", (1, 4, 8, 8), scale_factor_height=2.0, scale_factor_width=2.0),
                fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take L2.IndexMode.Mode=1", otherwise=True)),
    value=3, generations=("h16", "h17", "h18"))
