"""softmax over rows: sums and what follows them."""

from openane.experiments.families import sums_inside
from openane.experiments.forms import one

EXPERIMENT = sums_inside("softmax_rows", "softmax", one("softmax", (16, 768), axis=-1), value=7)
