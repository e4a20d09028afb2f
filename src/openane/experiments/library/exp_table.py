"""The function exp, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("exp_table", "exp")
