"""The function sin, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("sine", "sin", value=4)
