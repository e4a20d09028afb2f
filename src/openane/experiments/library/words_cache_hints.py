"""What sources say of the system's cache."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_cache_hints", ("TileDMASrc.*CacheHints.*", "TileDMASrc.*DMAConfig.CrH", "TileDMADst.DMAConfig.CrH"),
    ("elementwise", "convolution"), "TileDMASrc.DMAConfig.CrH=1", generations=("h14", "h15", "h16", "h17", "h18"))
