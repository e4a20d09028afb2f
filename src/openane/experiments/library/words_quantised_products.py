"""Products of quantised numbers."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.QuantZeroPoint.*", "NE.KernelCfg.AsymQuantEn", "NE.KernelCfg.BlockSize",
          "NE.KernelCfg.SparseBinary", "NE.MACCfg.DoubleInt8En")

EXPERIMENT = Experiment(
    "words_quantised_products", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.QuantZeroPoint.*", "field/*/NE.KernelCfg.AsymQuantEn", "field/*/NE.KernelCfg.BlockSize",
     "field/*/NE.KernelCfg.SparseBinary", "field/*/NE.MACCfg.DoubleInt8En"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.KernelCfg.AsymQuantEn=1", otherwise=True)),
    value=4, generations=("h16", "h17", "h18"))
