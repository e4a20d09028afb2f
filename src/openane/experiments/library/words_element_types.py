"""Numbers of element types."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("Common.ChCfg.*", "TileDMASrc.*Fmt.*", "TileDMADst.Fmt.*")

EXPERIMENT = Experiment(
    "words_element_types", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/Common.ChCfg.*", "field/*/TileDMASrc.*Fmt.*", "field/*/TileDMADst.Fmt.*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMADst.Fmt.Truncate=0", otherwise=True)),
    value=4, generations=("h18",))
