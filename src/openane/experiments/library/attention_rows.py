"""Attention: the sums of softmax inside it, between two products that come with the data."""

from functools import partial

from openane.bench.programs import attention
from openane.experiments.families import sums_inside

EXPERIMENT = sums_inside("attention_rows", "attention", partial(attention, 96, 64, 1), value=7)
