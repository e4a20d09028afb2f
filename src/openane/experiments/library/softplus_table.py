"""The function softplus, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("softplus_table", "softplus", value=4)
