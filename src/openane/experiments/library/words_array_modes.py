"""Modes of the multiply-accumulate array."""

from openane.experiments.forms import conv, linear, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.MACCfg.ArgSel", "NE.MACCfg.MaxPoolEn", "NE.MACCfg.PassEn",
          "NE.MACCfg.MatrixBiasEn", "NE.MACCfg.PostScaleMode")

EXPERIMENT = Experiment(
    "words_array_modes", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.MACCfg.ArgSel", "field/*/NE.MACCfg.MaxPoolEn", "field/*/NE.MACCfg.PassEn",
     "field/*/NE.MACCfg.MatrixBiasEn", "field/*/NE.MACCfg.PostScaleMode"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("pool", one("max_pool", (1, 8, 16, 16), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
                fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.MACCfg.PostScaleMode=1", otherwise=True)),
    value=3)
