"""Tensors that lie compressed in memory."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*Compressed*", "TileDMADst.Compressed*")

EXPERIMENT = Experiment(
    "words_compressed_tensors", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*Compressed*", "field/*/TileDMADst.Compressed*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMASrc.CompressedInfo.CompressedEnable=1",
                otherwise=True)),
    value=3, generations=("h16", "h17"))
