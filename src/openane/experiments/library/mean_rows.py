"""reduce_mean over rows: sums and what follows them."""

from openane.experiments.families import sums_inside
from openane.experiments.forms import one

EXPERIMENT = sums_inside("mean_rows", "reduce_mean", one("reduce_mean", (16, 768), axes=[-1], keep_dims=True))
