"""Model graphs in MIL terms."""

from openane.graph.graph import Data, Graph, Node, Operand, Value, copy_of, substituted
from openane.graph.types import NUMPY_TYPES, PACKED_BITS, TensorType, mil_type, numpy_type

__all__ = ["NUMPY_TYPES", "PACKED_BITS", "Data", "Graph", "Node", "Operand", "TensorType", "Value", "copy_of",
           "mil_type", "numpy_type", "substituted"]
