"""What the result's DMA is told of formats."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMADst.FormatMode.*", "TileDMADst.InternalCfg.*")

EXPERIMENT = Experiment(
    "words_format_mode", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMADst.FormatMode.*", "field/*/TileDMADst.InternalCfg.*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMADst.FormatMode.FormatMode=1", otherwise=True)),
    value=3, generations=("h16", "h17", "h18"))
