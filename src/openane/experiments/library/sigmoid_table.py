"""The function sigmoid, as programs of this compiler compute it."""

from openane.experiments.families import function

EXPERIMENT = function("sigmoid_table", "sigmoid")
