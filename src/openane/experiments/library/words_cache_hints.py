"""What sources say of the system's cache."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*CacheHints.*", "TileDMASrc.*DMAConfig.CrH", "TileDMADst.DMAConfig.CrH")

EXPERIMENT = Experiment(
    "words_cache_hints", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*CacheHints.*", "field/*/TileDMASrc.*DMAConfig.CrH", "field/*/TileDMADst.DMAConfig.CrH"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMASrc.DMAConfig.CrH=1", otherwise=True)),
    value=3, generations=("h14", "h15", "h16", "h17", "h18"))
