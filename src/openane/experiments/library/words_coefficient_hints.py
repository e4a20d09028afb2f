"""Hints of the paths of coefficients."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_coefficient_hints", ("KernelDMA.*DMAConfig*.CrH",), ("product", "table"),
    "KernelDMA.CoeffDMAConfig[0].CrH=1", generations=("h14", "h15", "h16", "h17", "h18"))
