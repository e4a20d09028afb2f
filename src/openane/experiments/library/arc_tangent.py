"""The function atan, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("arc_tangent", "atan", value=4)
