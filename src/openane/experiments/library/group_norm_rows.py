"""group_norm: sums over the two axes of a group."""

from functools import partial

from openane.bench.programs import group_norm
from openane.experiments.families import sums_inside

EXPERIMENT = sums_inside("group_norm_rows", "group_norm", partial(group_norm, 64, 16, 16))
