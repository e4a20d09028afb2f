"""The function sqrt, as programs of this compiler compute it."""

from openane.experiments.families import function
from openane.experiments.forms import positive

EXPERIMENT = function("square_root", "sqrt", positive, value=4)
