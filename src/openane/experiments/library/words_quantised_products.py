"""Products of quantised numbers."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_quantised_products",
    ("NE.QuantZeroPoint.*", "NE.KernelCfg.AsymQuantEn", "NE.KernelCfg.BlockSize", "NE.KernelCfg.SparseBinary",
     "NE.MACCfg.DoubleInt8En"),
    ("product", "convolution"), "NE.KernelCfg.AsymQuantEn=1", value=4, generations=("h16", "h17", "h18"))
