"""Zero points of the planar engine."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("PE.Quant.*",)

EXPERIMENT = Experiment(
    "words_planar_offsets", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/PE.Quant.*",),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("pool", one("max_pool", (1, 8, 16, 16), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
                fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take PE.Quant.OutputZeroPoint=1", otherwise=True)),
    value=3, generations=("h14", "h15", "h16", "h17", "h18"))
