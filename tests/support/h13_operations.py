"""Random operations H13 can express, for property tests."""

from dataclasses import replace

from hypothesis import strategies as st
from support.h13 import coefficients_at

from openane.engine import (
    Access,
    Activation,
    Binary,
    ChannelMaximum,
    ChannelProduct,
    CoefficientStream,
    Convolution,
    Elementwise,
    GainOffset,
    MatrixProduct,
    PassThrough,
    Pool,
    Pooling,
    Post,
    Reduce,
    Reduction,
    Root,
    Space,
)

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 2), st.integers(1, 20), st.integers(1, 70))
HALVES = st.floats(width=16, allow_nan=False)
SINGLES = st.floats(width=32, allow_nan=False)
SLOTS = st.integers(2, 31)


@st.composite
def operands(draw, shape, *, swap=False, broadcast=False, chain=False):
    """A random expressible access of `shape`, in memory or L2."""
    place = draw(st.sampled_from([Space.MEMORY, Space.L2]))
    unit = 64 if place is Space.MEMORY else 16
    strides = [unit * draw(st.integers(1, 40)) for _ in range(4)] + [2]
    if swap and draw(st.booleans()):
        strides[1], strides[4] = 2, strides[1]
    if broadcast and place is Space.L2:
        for axis in range(1, 4):
            if draw(st.booleans()) and strides[axis] != 2:
                strides[axis] = 0
        if strides[1] != 2 and draw(st.booleans()):
            strides[4] = 0
    n, c, d, h, w = strides
    slot = draw(SLOTS) if place is Space.MEMORY else 0
    offset = unit * draw(st.integers(0, 100))
    access = Access(space=place, slot=slot, offset=offset, shape=shape, strides=(n, c, d, h, w))
    if place is Space.MEMORY and not swap and draw(st.booleans()):
        copy = Access(space=Space.L2, offset=16 * draw(st.integers(0, 50)), shape=shape, strides=(16, 32, 48, 64, 2))
        access = replace(access, copy=copy)
    return access


@st.composite
def neural_operations(draw):
    shape = draw(SHAPES)
    kind = draw(st.sampled_from([Convolution, PassThrough, ChannelMaximum, ChannelProduct, MatrixProduct]))
    activation = draw(st.sampled_from(list(Activation)))
    post = Post(bias=draw(HALVES), scale=draw(HALVES), activation=activation)
    table = activation is Activation.TABLE
    streams = tuple(CoefficientStream(core, 64 * draw(st.integers(0, 99)), 64 * draw(st.integers(1, 99)))
                    for core in sorted(draw(st.sets(st.integers(0, 15), min_size=1))))
    runtime = kind is MatrixProduct
    weights = runtime or (kind is Convolution and draw(st.booleans()))
    coefficients = coefficients_at(draw(st.sampled_from([1, 3, 6])), streams=streams, weights=weights, table=table,
                                lanes=1 << draw(st.integers(0, 5)) if weights else 1, runtime=runtime,
                                bias=weights and draw(st.booleans()))
    common = {"source": draw(operands(shape)), "post": post, "input_relu": draw(st.booleans()),
              "coefficients": coefficients if weights or table else None}
    if kind is PassThrough:
        return PassThrough(**common, result=draw(operands(shape, swap=True)))
    out = (shape[0], draw(st.integers(1, 40)), *shape[2:])
    if kind is MatrixProduct:
        return MatrixProduct(**common, result=draw(operands(out, swap=True)))
    if kind is ChannelProduct:
        common["source"] = draw(operands((shape[0], 2 * shape[1], *shape[2:])))
        return ChannelProduct(**common, result=draw(operands(shape, swap=True)))
    if kind is ChannelMaximum:
        return ChannelMaximum(**common, result=draw(operands((shape[0], 1, *shape[2:]), swap=True)), channels=shape[1])
    unicast = draw(st.sampled_from([0, 1]))
    out = shape if unicast else (shape[0], out[1], draw(st.integers(1, 2)), draw(st.integers(1, 30)), shape[4])
    return Convolution(
        **common, result=draw(operands(out, swap=True)), unicast=unicast, shared=draw(st.booleans()),
        kernel=(1, draw(st.integers(1, 31)), draw(st.integers(1, 31))),
        stride=(1, draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        padding=(0, draw(st.integers(0, 31)), draw(st.integers(0, 31))))


@st.composite
def planar_operations(draw):
    shape = draw(SHAPES)
    kind = draw(st.sampled_from([Elementwise, GainOffset, Reduction, Pooling]))
    flags = ("absolute", "negate", "subtract", "first_relu", "second_relu", "relu")
    common = {"first": draw(operands(shape, broadcast=True)), **{name: draw(st.booleans()) for name in flags},
              **{name: draw(HALVES) for name in ("pre_scale", "scale", "bias")}}
    second = st.none() | operands(shape, swap=True, broadcast=True)
    if kind is GainOffset:
        vectors = draw(operands((shape[0], shape[1], 1, 2, 1), swap=True))
        return GainOffset(**common, second=vectors, result=draw(operands(shape, swap=True)))
    if kind is Elementwise:
        return Elementwise(**common, second=draw(second), result=draw(operands(shape, swap=True)),
                           function=draw(st.sampled_from(list(Binary))))
    if kind is Reduction:
        return Reduction(**common, second=draw(second), result=draw(operands((*shape[:2], 1, 1, 1), swap=True)),
                         reduce=draw(st.sampled_from(list(Reduce))), function=draw(st.sampled_from(list(Binary))),
                         final_scale=draw(SINGLES), epsilon=draw(HALVES), root=draw(st.sampled_from(list(Root))))
    out = (*shape[:3], draw(st.integers(1, 20)), draw(st.integers(1, 20)))
    return Pooling(**common, result=draw(operands(out, swap=True)), pool=draw(st.sampled_from(list(Pool))),
                   kernel=(draw(st.integers(1, 31)), draw(st.integers(1, 31))),
                   stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
                   padding=(draw(st.integers(0, 31)), draw(st.integers(0, 31))), final_scale=draw(SINGLES))


def with_plain_second(operation):
    """The operation with a second operand that is not kept, as none can be."""
    second = getattr(operation, "second", None)
    return operation if second is None or second.copy is None else replace(operation, second=replace(second, copy=None))
