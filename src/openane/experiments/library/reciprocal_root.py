"""The function rsqrt, as programs of this compiler compute it."""

from openane.experiments.families import function
from openane.experiments.forms import positive

EXPERIMENT = function("reciprocal_root", "rsqrt", positive, value=4, epsilon=1e-4)
