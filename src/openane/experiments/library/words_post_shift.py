"""Shifts of biases and scales."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_post_shift", ("NE.AccBias.Shift", "NE.PostScale.Shift", "NE.MatrixVectorBias.Bias"),
    ("product", "convolution"), "NE.AccBias.Shift=1")
