"""Operands that are found by indices."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_index_source", ("L2.Index*", "Common.Broadcast.Index*"), ("elementwise", "resize"), "L2.IndexMode.Mode=1",
    generations=("h16", "h17", "h18"))
