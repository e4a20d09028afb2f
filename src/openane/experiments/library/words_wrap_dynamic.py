"""Rings whose place is computed."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*WrapDynamic.*", "TileDMASrc.*DependencyOffset.*", "TileDMASrc.Ephemeral.*")

EXPERIMENT = Experiment(
    "words_wrap_dynamic", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*WrapDynamic.*", "field/*/TileDMASrc.*DependencyOffset.*", "field/*/TileDMASrc.Ephemeral.*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMASrc.Ephemeral.Enable=1", otherwise=True)),
    value=3, generations=("h16", "h17"))
