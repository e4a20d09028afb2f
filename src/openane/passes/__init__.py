"""Graph rewrites that are not about one operation."""

from openane.passes.order import simplify

__all__ = ["simplify"]
