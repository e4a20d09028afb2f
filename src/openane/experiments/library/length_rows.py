"""reduce_l2_norm over rows: sums and what follows them."""

from openane.experiments.families import sums_inside
from openane.experiments.forms import one

EXPERIMENT = sums_inside("length_rows", "reduce_l2_norm", one("reduce_l2_norm", (16, 768), axes=[-1], keep_dims=True))
