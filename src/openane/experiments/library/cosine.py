"""The function cos, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("cosine", "cos", value=4)
