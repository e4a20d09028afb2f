"""What the engine can do, in typed operations over strided accesses. Knows no chip and no numpy."""

from openane.engine.access import AXES, Access, DType, Shape, Space
from openane.engine.coefficients import Coefficients, CoefficientSection, CoefficientStream, Packing, Streams
from openane.engine.geometry import Geometry, geometry_of, multiplications
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

__all__ = ["AXES", "Access", "Activation", "Binary", "ChannelMaximum", "ChannelProduct", "CoefficientSection",
           "CoefficientStream", "Coefficients", "Convolution", "DType", "Elementwise", "GainOffset", "Geometry",
           "MatrixProduct", "NeuralOperation", "Operation", "Packing", "PassThrough", "PlanarOperation", "Pool",
           "Pooling", "Post", "Reduce", "Reduction", "Root", "Shape", "Space", "Streams", "describe", "geometry_of",
           "multiplications", "sources", "with_operands"]
