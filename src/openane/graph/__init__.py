"""Model graphs in MIL terms."""

from openane.graph.graph import (
    Data,
    Graph,
    Node,
    Operand,
    RoundedArray,
    RoundedConstant,
    Value,
    as_stated,
    copy_of,
    in_their_types,
    substituted,
    with_data,
    without_stated,
)
from openane.graph.types import NUMPY_TYPES, PACKED_BITS, TensorType, mil_type, numpy_type

__all__ = ["NUMPY_TYPES", "PACKED_BITS", "Data", "Graph", "Node", "Operand", "RoundedArray", "RoundedConstant",
           "TensorType", "Value", "as_stated", "copy_of", "in_their_types", "mil_type", "numpy_type", "substituted",
           "with_data", "without_stated"]
