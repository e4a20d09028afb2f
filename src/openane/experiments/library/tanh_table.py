"""The function tanh, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("tanh_table", "tanh")
