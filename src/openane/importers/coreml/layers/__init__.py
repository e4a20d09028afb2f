"""Layers of Core ML neural networks as operations of the graph, by kind."""

from collections.abc import Mapping

from openane.importers.coreml.layers import arithmetic, layout, matrices, reductions, windows
from openane.importers.coreml.layers.layer import CoremlLayer, Handler

LAYERS: Mapping[str, Handler] = {
    **arithmetic.LAYERS, **layout.LAYERS, **matrices.LAYERS, **reductions.LAYERS, **windows.LAYERS}
"""What becomes of each kind of layer; the others are refused."""

__all__ = ["LAYERS", "CoremlLayer"]
