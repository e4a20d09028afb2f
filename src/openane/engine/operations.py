"""What the engine can do: a handful of typed operations, the one vocabulary of the whole project.

Neural engine (NE): an array of multiply-accumulate cores with a post stage
    accumulator -> (+ accumulator_bias) -> * scale -> none, ReLU or a 33-knot table -> result
Planar engine (PE): elementwise arithmetic, reductions and pooling over planes.

The compiler lowers models to these records and a chip encodes them into tasks; reading a program, the chip decodes
tasks into the same records. Records hold only what decides the result: no tiling, cache hints or scheduling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum

from openane.engine.access import Access
from openane.engine.changing import with_fields
from openane.engine.coefficients import Coefficients
from openane.record_classes import dataclass


class Activation(StrEnum):
    """The neural engine's last stage."""

    NONE = "none"
    RELU = "relu"
    TABLE = "table"  # 128 bytes at the head of the coefficient streams; see engine.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """The neural engine's post stage: y = activation(scale * (x + bias)). Both numbers are fp16 values."""

    bias: float = 0.0
    scale: float = 1.0
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralOperation:
    """Common to every neural-engine operation: one streamed source, one result, coefficients, the post stage."""

    source: Access
    result: Access
    coefficients: Coefficients | None = None
    post: Post = Post()
    input_relu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(NeuralOperation):
    """result[n, o] = sum over channels and taps of source * weight. N is the group: each has its own C channels.

    source C and result C count channels per group. `unicast` 0 is dense; `unicast` u > 0 means output channel o reads
    only the u source channels o*u .. o*u+u-1 (1 is depthwise). Weights [N, Cout, u or Cin, Kd, Kh, Kw] come from
    `coefficients`; without weights there they are all ones. `shared`: every group uses the same weights (a batch).
    `padding` counts zeros before the first element (D, H, W); what follows the last one is implied by the result shape.
    """

    kernel: tuple[int, int, int] = (1, 1, 1)
    stride: tuple[int, int, int] = (1, 1, 1)
    padding: tuple[int, int, int] = (0, 0, 0)
    unicast: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct(NeuralOperation):
    """A 1x1 convolution whose weights are another operation's result: result[n, o, w] = sum_c source[n, c, w] k[o, c].

    `coefficients.runtime` is set; they are read from a buffer in coefficient packing while the program runs. N is a
    batch, all of which meets the same coefficients, or where `grouped` is set, each those of its own, a plane behind
    the other in every stream (both inferred from convolutions with constant ones: products seen have one group).
    """

    grouped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough(NeuralOperation):
    """result = post(source), element by element: copy, transpose (by strides), scale, ReLU, table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMaximum(NeuralOperation):
    """result[n, o] = post(max of the `channels` source channels o*channels .. o*channels+channels-1)."""

    channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelProduct(NeuralOperation):
    """result[n, o] = post(source channel 2o times source channel 2o + 1)."""


class Binary(StrEnum):
    """Two-operand functions of the planar engine."""

    ADD = "add"
    MULTIPLY = "mul"
    MAXIMUM = "max"
    MINIMUM = "min"
    SQUARE_SUM = "square_sum"  # (a + b)^2


class Root(StrEnum):
    """The planar engine's closing function of one variable."""

    NONE = "none"
    RECIPROCAL = "reciprocal"
    RSQRT = "rsqrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanarOperation:
    """Common to planar-engine operations: x = +-(pre_scale * first), |x| if `absolute`; `first_relu`/`second_relu`
    clamp an operand as it is read; `subtract` negates the second operand, `negate` the first."""

    first: Access
    second: Access | None = None
    result: Access
    pre_scale: float = 1.0
    absolute: bool = False
    negate: bool = False
    subtract: bool = False
    first_relu: bool = False
    second_relu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(PlanarOperation):
    """result = relu?(scale * function(x, y) + bias); without a second operand function is the identity of x."""

    function: Binary = Binary.ADD
    scale: float = 1.0
    bias: float = 0.0
    relu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GainOffset(PlanarOperation):
    """result = relu?(scale * ((x +- vectors[0]) * vectors[1]) + bias).

    `second` holds two rows (H = 2 for row 0 the offsets and row 1 the gains) of one value per broadcast position.
    """

    scale: float = 1.0
    bias: float = 0.0
    relu: bool = False


class Reduce(StrEnum):
    """What a reduction accumulates."""

    SUM = "sum"
    MAXIMUM = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction(PlanarOperation):
    """Reduces D, H, W of each (n, c) to one element: r = reduce(scale * f(x, y) + bias),
    then root(r * final_scale + epsilon). f is `function` when there is a second operand, else the identity; a square
    sum of one operand is its square."""

    reduce: Reduce = Reduce.SUM
    function: Binary = Binary.ADD
    scale: float = 1.0
    bias: float = 0.0
    final_scale: float = 1.0
    epsilon: float = 0.0
    root: Root = Root.NONE
    relu: bool = False


class Pool(StrEnum):
    """What a pooling window computes."""

    AVERAGE = "average"
    MAXIMUM = "max"
    MINIMUM = "min"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(PlanarOperation):
    """Windowed pooling over H and W: window(source) * final_scale, padding as in Convolution.

    An average sums the window (padding adds zeros) and `final_scale` divides; a maximum pads with -inf.
    """

    pool: Pool = Pool.MAXIMUM
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    scale: float = 1.0
    bias: float = 0.0
    final_scale: float = 1.0
    relu: bool = False


Operation = (Convolution | MatrixProduct | PassThrough | ChannelMaximum | ChannelProduct
             | Elementwise | GainOffset | Reduction | Pooling)


def sources(operation: Operation) -> tuple[Access, ...]:
    """The tile operands an operation reads (coefficients apart)."""
    if isinstance(operation, NeuralOperation):
        return (operation.source,)
    return (operation.first,) if operation.second is None else (operation.first, operation.second)


def with_operands(operation: Operation, changes: Mapping[str, Access | Coefficients | None]) -> Operation:
    """The operation with some accesses, or its coefficients, replaced."""
    return with_fields(operation, changes)


def describe(operation: Operation) -> str:
    """One line for people: name, operands, and every setting that is not the default."""
    reads = ", ".join(str(access) for access in sources(operation))
    settings = "".join(f" {setting}" for setting in _settings(operation))
    return f"{type(operation).__name__}({reads}) -> {operation.result}{settings}"


def _settings(record: Operation | Post) -> list[str]:
    """`name=value` of every field that is neither an operand nor at its default; the post stage's are spread out."""
    settings: list[str] = []
    for f in fields(record):
        value = getattr(record, f.name)
        if f.name in ("source", "first", "second", "result") or value == f.default:
            continue
        settings += [f"post.{s}" for s in _settings(value)] if isinstance(value, Post) else [f"{f.name}={value}"]
    return settings
