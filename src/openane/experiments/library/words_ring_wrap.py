"""Rings in L2: where they wrap."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_ring_wrap", ("L2.*Wrap*",), ("convolution", "elementwise"), "L2.SourceWrapStart.WrapLen=1",
    generations=("h14", "h16", "h17", "h18"))
