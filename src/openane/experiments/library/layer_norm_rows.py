"""layer_norm over rows: sums and what follows them."""

from openane.experiments.families import sums_inside
from openane.experiments.forms import one

EXPERIMENT = sums_inside("layer_norm_rows", "layer_norm",
                         one("layer_norm", (16, 768), axes=[-1], epsilon=1e-5), value=7)
