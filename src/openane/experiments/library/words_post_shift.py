"""Shifts of biases and scales."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.AccBias.Shift", "NE.PostScale.Shift", "NE.MatrixVectorBias.Bias")

EXPERIMENT = Experiment(
    "words_post_shift", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.AccBias.Shift", "field/*/NE.PostScale.Shift", "field/*/NE.MatrixVectorBias.Bias"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.AccBias.Shift=1", otherwise=True)),
    value=3)
