"""Overlap of tiles, and wide ones."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_tiles", ("Common.TileOverlap.*", "Common.NECfg.*", "Common.Cfg.ReluType"), ("convolution", "pool"),
    "Common.TileOverlap.Overlap=1", generations=("h16", "h17", "h18"))
