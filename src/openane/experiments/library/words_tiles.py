"""Overlap of tiles, and wide ones."""

from openane.experiments.forms import conv, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("Common.TileOverlap.*", "Common.NECfg.*", "Common.Cfg.ReluType")

EXPERIMENT = Experiment(
    "words_tiles", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/Common.TileOverlap.*", "field/*/Common.NECfg.*", "field/*/Common.Cfg.ReluType"),
    (Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS),
     Trial("pool", one("max_pool", (1, 8, 16, 16), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
                fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take Common.TileOverlap.Overlap=1", otherwise=True)),
    value=3, generations=("h16", "h17", "h18"))
