"""The functions of one tensor that are described, by name."""

from __future__ import annotations

from openane.ops import all_ops

RECORDS = {name: op.unary for name, op in all_ops().items() if op.unary is not None}
FUNCTIONS = {name: unary.function for name, unary in RECORDS.items()}
BOUNDS = {name: unary.bound for name, unary in RECORDS.items()}
