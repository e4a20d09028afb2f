"""What the engine can do, in typed operations over strided accesses. Knows no chip and no numpy."""

from openane.engine.access import AXES, Access, DType, Shape, Space
from openane.engine.coefficients import Coefficients, Packing, Stream, Streams
from openane.engine.operations import (
    Activation,
    Binary,
    ChannelMaximum,
    ChannelProduct,
    Convolution,
    Elementwise,
    GainOffset,
    MatrixProduct,
    NeuralOperation,
    Operation,
    PassThrough,
    PlanarOperation,
    Pool,
    Pooling,
    Post,
    Reduce,
    Reduction,
    Root,
    describe,
    sources,
    with_operands,
)

__all__ = ["AXES", "Access", "Activation", "Binary", "ChannelMaximum", "ChannelProduct", "Coefficients", "Convolution",
           "DType", "Elementwise", "GainOffset", "MatrixProduct", "NeuralOperation", "Operation", "Packing",
           "PassThrough", "PlanarOperation", "Pool", "Pooling", "Post", "Reduce", "Reduction", "Root", "Shape",
           "Space", "Stream", "Streams", "describe", "sources",
           "with_operands"]
