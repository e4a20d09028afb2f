"""Slices that begin inside."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*CropOffset.*",)

EXPERIMENT = Experiment(
    "words_crop_offset", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*CropOffset.*",),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("pool", one("max_pool", (1, 8, 16, 16), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
                fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMASrc.CropOffset.X=1", otherwise=True)),
    value=3, generations=("h16", "h17"))
