"""What the result's DMA is told of formats."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_format_mode", ("TileDMADst.FormatMode.*", "TileDMADst.InternalCfg.*"), ("elementwise", "convolution"),
    "TileDMADst.FormatMode.FormatMode=1", generations=("h16", "h17", "h18"))
