"""Zero points of the planar engine."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_planar_offsets", ("PE.Quant.*",), ("elementwise", "pool"), "PE.Quant.OutputZeroPoint=1",
    generations=("h14", "h15", "h16", "h17", "h18"))
