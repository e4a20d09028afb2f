"""StableHLO operations as operations of the graph: a module for each family, which exports its handlers as
`OPERATORS`."""

from __future__ import annotations

from collections.abc import Mapping

from openane.importers.discovery import handlers
from openane.importers.stablehlo.operators import elementwise
from openane.importers.stablehlo.step import Handler

OPERATORS: Mapping[str, Handler] = handlers(__name__, __path__, "OPERATORS")
"""Operations by name: those of chlo with their dialect before them."""
ELEMENTWISE = frozenset(elementwise.OPERATORS)
"""Those of single elements: the order of axes is the same to them."""
IN_ANY_ORDER = frozenset(["convolution", "reduce", "reduce_window", "transpose"])
"""Those that take operands in any order of axes."""

__all__ = ["ELEMENTWISE", "IN_ANY_ORDER", "OPERATORS"]
