"""The function log, as programs of this compiler compute it."""

from openane.experiments.families import function
from openane.experiments.forms import positive

EXPERIMENT = function("log_table", "log", positive, epsilon=1e-4)
