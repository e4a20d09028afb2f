"""Forms of engine operations: what a task has that another generation might state otherwise.

Evidence about a generation is kept by form: a record of Apple's compiler that has a task of a form shows how the
generation states it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openane.engine.access import Access, DType, Space
from openane.engine.coefficients import Packing
from openane.engine.operations import (
    Activation,
    ChannelMaximum,
    ChannelProduct,
    Convolution,
    Elementwise,
    GainOffset,
    MatrixProduct,
    NeuralOperation,
    Operation,
    PassThrough,
    Pooling,
    Reduction,
    Root,
    sources,
)

PRODUCT, CONVOLUTION = "1x1 convolution", "convolution of windows"
FORMS: tuple[str, ...] = (
    PRODUCT, CONVOLUTION, "stride", "depth of a kernel", "groups", "depthwise", "weights without zeros",
    "weights of a palette", "sum of channels", "product of two inputs", "copy", "largest channel",
    "product of channels", "table of a function", "elementwise, one operand", "elementwise, two operands",
    "gain and offset of each channel", "reduction", "root or reciprocal", "pooling", "channels in blocks",
    "tensors of 8 bits")
"""All there are."""
_KINDS = {MatrixProduct: "product of two inputs", PassThrough: "copy", ChannelMaximum: "largest channel",
          ChannelProduct: "product of channels", GainOffset: "gain and offset of each channel", Reduction: "reduction",
          Pooling: "pooling"}
_PACKINGS = {Packing.SPARSE: "weights without zeros", Packing.PALETTE: "weights of a palette"}


def forms(operations: Iterable[Operation]) -> frozenset[str]:
    """The forms that operations have, of FORMS."""
    return frozenset(form for operation in operations for form in _forms(operation))


def _forms(operation: Operation) -> Iterator[str]:
    if isinstance(operation, Convolution):
        yield from _convolution(operation)
    elif isinstance(operation, Elementwise):
        yield f"elementwise, {'one operand' if operation.second is None else 'two operands'}"
    else:
        yield _KINDS[type(operation)]
    if isinstance(operation, NeuralOperation) and operation.post.activation is Activation.TABLE:
        yield "table of a function"
    if isinstance(operation, Reduction) and operation.root is not Root.NONE:
        yield "root or reciprocal"
    operands = (*sources(operation), operation.result)
    if any(_in_blocks(access) for access in operands):
        yield "channels in blocks"
    if any(access.dtype is not DType.FLOAT16 for access in operands):
        yield "tensors of 8 bits"


def _convolution(operation: Convolution) -> Iterator[str]:
    coefficients = operation.coefficients
    if coefficients is None or coefficients.weights is None:
        yield "sum of channels"
        return
    yield PRODUCT if operation.kernel == (1, 1, 1) else CONVOLUTION
    if operation.stride != (1, 1, 1):
        yield "stride"
    if operation.kernel[0] > 1:
        yield "depth of a kernel"
    if operation.unicast:
        yield "depthwise"
    elif operation.source.shape[0] > 1:
        yield "groups"
    if coefficients.packing in _PACKINGS:
        yield _PACKINGS[coefficients.packing]


def _in_blocks(access: Access) -> bool:
    return access.interleave > 1 and access.space is not Space.CHAIN


__all__ = ["FORMS", "forms"]
