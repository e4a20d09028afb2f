"""Tensors that lie compressed in L2."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_l2_compression", ("L2.*Cfg.Compression", "L2.SourceOffset.*"), ("convolution", "elementwise"),
    "L2.SourceCfg.Compression=1", generations=("h14", "h15", "h16", "h17", "h18"))
