"""Layers of Core ML neural networks as operations of the graph: a module for each family, which exports its handlers as
`LAYERS`."""

from __future__ import annotations

from collections.abc import Mapping

from openane.importers.coreml.layers.layer import CoremlLayer, Handler
from openane.importers.discovery import handlers

LAYERS: Mapping[str, Handler] = handlers(__name__, __path__, "LAYERS")
"""What becomes of each kind of layer; the others are refused."""

__all__ = ["LAYERS", "CoremlLayer"]
