"""How results are rounded."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_rounding", ("NE.RoundModeCfg.*", "NE.SRSeed*"), ("product", "convolution"), "NE.RoundModeCfg.Mode=1",
    value=4, generations=("h15", "h16", "h17", "h18"))
