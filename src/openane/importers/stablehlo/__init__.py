"""StableHLO modules, as `jax.export` writes them, to graphs.

Text is read here, without JAX; bytecode is made text by jaxlib's reader. Functions are written out where they are
called, and composite operations the graph has are kept. Floating point becomes fp16, int64 int32.
"""

from __future__ import annotations

from openane.importers.stablehlo.load import is_exported, load_stablehlo
from openane.importers.stablehlo.operators import OPERATORS

__all__ = ["OPERATORS", "is_exported", "load_stablehlo"]
