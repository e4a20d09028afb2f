"""Data about compressed tensors."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*MetaData*", "TileDMADst.MetaData*")

EXPERIMENT = Experiment(
    "words_metadata", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*MetaData*", "field/*/TileDMADst.MetaData*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMADst.MetaDataAddr.Addr=64", otherwise=True)),
    value=3, generations=("h16", "h17", "h18"))
