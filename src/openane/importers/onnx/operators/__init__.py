"""ONNX operators as operations of the graph: a module for each family, which exports its handlers as `OPERATORS`."""

from __future__ import annotations

from collections.abc import Mapping

from openane.importers.discovery import handlers
from openane.importers.onnx.step import Handler

OPERATORS: Mapping[str, Handler] = handlers(__name__, __path__, "OPERATORS")
"""Operators that become operations of the graph, by op_type. Folding knows more (see fold.FOLDS)."""

__all__ = ["OPERATORS"]
