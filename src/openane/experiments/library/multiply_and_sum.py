"""mul+reduce: the inner products of rows, multiplied and then added by the planar engine."""

from functools import partial

from openane.bench.programs import product_sum
from openane.experiments.families import sums_inside

EXPERIMENT = sums_inside("multiply_and_sum", "mul+reduce", partial(product_sum, 5120), value=8)
