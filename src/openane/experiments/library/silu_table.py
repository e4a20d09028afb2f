"""The function silu, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("silu_table", "silu")
