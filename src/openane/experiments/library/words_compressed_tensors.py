"""Tensors that lie compressed in memory."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_compressed_tensors", ("TileDMASrc.*Compressed*", "TileDMADst.Compressed*"), ("elementwise", "convolution"),
    "TileDMASrc.CompressedInfo.CompressedEnable=1", generations=("h16", "h17"))
