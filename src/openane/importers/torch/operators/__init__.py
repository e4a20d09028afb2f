"""PyTorch operators as operations of the graph: a module for each family, which exports its handlers as `OPERATORS`."""

from __future__ import annotations

from collections.abc import Mapping

from openane.importers.discovery import handlers
from openane.importers.torch.step import Handler

OPERATORS: Mapping[str, Handler] = handlers(__name__, __path__, "OPERATORS")
"""Operators of PyTorch's library `aten` that become operations of the graph, by name."""

__all__ = ["OPERATORS"]
