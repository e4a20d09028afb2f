"""How results are rounded."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.RoundModeCfg.*", "NE.SRSeed*")

EXPERIMENT = Experiment(
    "words_rounding", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.RoundModeCfg.*", "field/*/NE.SRSeed*"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.RoundModeCfg.Mode=1", otherwise=True)),
    value=4, generations=("h15", "h16", "h17", "h18"))
