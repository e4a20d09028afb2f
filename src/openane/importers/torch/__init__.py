"""PyTorch programs, as `torch.export` gives them, to graphs.

Operators that need it are taken apart by PyTorch's own decompositions first; composite operators the graph has a
counterpart for (attention, linear layers, activations) are kept. What depends on weights alone is computed here by
PyTorch itself. Floating point becomes fp16, int64 int32; `Graph.metadata["dtype:PORT"]` keeps the program's type.
"""

from __future__ import annotations

from openane.importers.torch.load import WRITTEN, is_exported, load_torch
from openane.importers.torch.operators import OPERATORS

__all__ = ["OPERATORS", "WRITTEN", "is_exported", "load_torch"]
