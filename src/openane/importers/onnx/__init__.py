"""ONNX models to graphs.

Floating point becomes fp16, what the engine computes in; int64 becomes int32. `Graph.metadata["dtype:PORT"]` keeps the
type the model declares for each port. What depends only on constants and static shapes is computed here, so the
arithmetic exporters write around Reshape disappears.
"""

from __future__ import annotations

from openane.importers.onnx.load import load_onnx
from openane.importers.onnx.operators import OPERATORS
from openane.importers.onnx.step import RunTimeOperandError

__all__ = ["OPERATORS", "RunTimeOperandError", "load_onnx"]
