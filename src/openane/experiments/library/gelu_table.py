"""The function gelu, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("gelu_table", "gelu", value=6)
