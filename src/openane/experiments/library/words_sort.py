"""The unit that compares and sorts."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_sort", ("NE.RcasConfig.*",), ("softmax", "convolution"), "NE.RcasConfig.Mode=1",
    generations=("h15", "h16", "h17", "h18"))
