"""Modes of the multiply-accumulate array."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_array_modes",
    ("NE.MACCfg.ArgSel", "NE.MACCfg.MaxPoolEn", "NE.MACCfg.PassEn", "NE.MACCfg.MatrixBiasEn",
     "NE.MACCfg.PostScaleMode"),
    ("product", "pool", "convolution"), "NE.MACCfg.PostScaleMode=1")
