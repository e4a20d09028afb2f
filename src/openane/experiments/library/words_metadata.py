"""Data about compressed tensors."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_metadata", ("TileDMASrc.*MetaData*", "TileDMADst.MetaData*"), ("elementwise", "convolution"),
    "TileDMADst.MetaDataAddr.Addr=64", generations=("h16", "h17", "h18"))
