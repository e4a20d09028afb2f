"""Small programs of every kind of operation, emitted by the chip: what mutants are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from support.h13 import FORMAT, coefficients_at, layout_of, table_bytes

from openane.chips import get_chip
from openane.compiler.weights.pack import pack_dense, pack_sparse
from openane.engine import (
    Access,
    Activation,
    Binary,
    ChannelMaximum,
    CoefficientStream,
    Convolution,
    DType,
    Elementwise,
    GainOffset,
    MatrixProduct,
    Operation,
    Packing,
    PassThrough,
    Pool,
    Pooling,
    Post,
    Reduce,
    Reduction,
    Root,
    Space,
)
from openane.ops import tables
from openane.program import Buffer, Program, Role, Task

RNG = np.random.default_rng(11)
TABLE = table_bytes(tables.exp2())
X, Y, Z = 4, 5, 6
SCRATCH = 3


def surface(slot: int, shape: tuple[int, ...], offset: int = 0, dtype: DType = DType.FLOAT16) -> Access:
    """A tensor with rows padded to 64 bytes."""
    layout = layout_of(shape, dtype)
    return Access(slot=slot, offset=offset, shape=layout.shape, strides=layout.strides, dtype=dtype)


def resident(offset: int, shape: tuple[int, ...]) -> Access:
    """A tensor in L2, channels adjacent cells of one row."""
    n, c, d, h, w = shape
    cell = -(-w * 2 // 16) * 16
    strides = (c * cell * h * d, cell, c * cell * h, c * cell, 2)
    return Access(space=Space.L2, offset=offset, shape=shape, strides=strides)


def program(operations: Sequence[Operation], ports: Sequence[tuple[str, int, Role, tuple[int, ...]]],
            constants: bytes = b"", scratch: int = 0, dtype: DType = DType.FLOAT16) -> Program:
    """Emitted operations with their buffers."""
    tasks = get_chip("h13").emit(operations)
    buffers = []
    for name, slot, role, shape in ports:
        layout = layout_of(shape, dtype)
        buffers.append(Buffer(name, slot, role, layout.size, layout))
    if scratch:
        buffers.append(Buffer("scratch", SCRATCH, Role.SCRATCH, scratch))
    return Program("h13", tuple(Task(t.words, t.offset) for t in tasks), constants, tuple(buffers))


def one_to_one(shape: tuple[int, ...], result: tuple[int, ...] | None = None) -> list[tuple[str, int, Role, tuple]]:
    """Ports x and y."""
    return [("x", X, Role.INPUT, shape), ("y", Y, Role.OUTPUT, result or shape)]


def convolution(shape: tuple[int, ...], result: tuple[int, ...], kernel: int = 1, *, groups: bool = False,
                stride: int = 1, padding: int = 0, unicast: int = 0, bias: bool = False, relu: bool = False) -> Program:
    """A convolution with random weights."""
    rows = (unicast or shape[1]) * kernel * kernel
    weights = RNG.standard_normal((shape[0] if groups else 1, result[1], rows))
    packed = pack_dense(FORMAT, weights, RNG.standard_normal(weights.shape[:2]) if bias else None, 1)
    coefficients = coefficients_at(1, packed.streams, lanes=1, bias=bias)
    post = Post(activation=Activation.RELU if relu else Activation.NONE)
    operation = Convolution(
        source=surface(X, shape), result=surface(Y, result), coefficients=coefficients, post=post,
        kernel=(1, kernel, kernel), stride=(1, stride, stride), padding=(0, padding, padding), unicast=unicast)
    return program([operation], one_to_one(shape, result), packed.data)


def sparse() -> Program:
    """A strided convolution with zero-skipping coefficients."""
    shape, result = (1, 8, 1, 6, 6), (1, 32, 1, 3, 3)
    packed = pack_sparse(FORMAT, RNG.standard_normal((1, 32, 8, 3, 3)) * RNG.integers(0, 2, (1, 32, 8, 3, 3)), None, 2)
    coefficients = coefficients_at(1, packed.streams, lanes=2,
                                packing=Packing.SPARSE)
    operation = Convolution(source=surface(X, shape), result=surface(Y, result), coefficients=coefficients,
                            kernel=(1, 3, 3), stride=(1, 2, 2))
    return program([operation], one_to_one(shape, result), packed.data)


def pooling(pool: Pool) -> Program:
    """3x3 windows, stride 2, one row of padding."""
    shape, result = (1, 6, 1, 9, 9), (1, 6, 1, 5, 5)
    operation = Pooling(first=surface(X, shape), result=surface(Y, result), pool=pool, kernel=(3, 3), stride=(2, 2),
                        padding=(1, 1), final_scale=1.0 if pool is Pool.MAXIMUM else 0.111083984375)
    return program([operation], one_to_one(shape, result))


def broadcast_in_l2() -> Program:
    """x + z with one z per channel, brought to L2 first."""
    shape, small = (1, 8, 1, 6, 10), (1, 8, 1, 1, 1)
    kept = resident(0, small)
    n, c, d, h, w = kept.strides
    wide = replace(kept, shape=shape, strides=(0, c, 0, 0, 0))
    operations = [PassThrough(source=surface(Z, small), result=kept),
                  Elementwise(first=surface(X, shape), second=wide, result=surface(Y, shape), function=Binary.ADD)]
    return program(operations, [*one_to_one(shape), ("z", Z, Role.INPUT, small)])


def two_sources() -> Program:
    """x * z through scratch, then minus x."""
    shape = (1, 5, 1, 7, 40)
    size = layout_of(shape).size
    first = Elementwise(first=surface(X, shape), second=surface(Z, shape), result=surface(SCRATCH, shape, 64),
                        function=Binary.MULTIPLY)
    second = Elementwise(first=surface(SCRATCH, shape, 64), second=surface(X, shape), result=surface(Y, shape),
                         subtract=True)
    return program([first, second], [*one_to_one(shape), ("z", Z, Role.INPUT, shape)], scratch=size + 64)


def softmax() -> Program:
    """Over 24 channels, all in L2."""
    shape, one = (1, 24, 1, 1, 1), (1, 1, 1, 1, 1)
    x = replace(surface(X, shape), copy=resident(0x400, shape))
    low, kept = resident(0, one), resident(0x400, shape)
    shifted, powers, total = resident(0x800, shape), resident(0xC00, shape), resident(0x10, one)
    table = coefficients_at(1, [(core, 0, 128) for core in range(16)], weights=False, table=True)
    operations = [
        ChannelMaximum(source=x, result=low, channels=24),
        Elementwise(first=kept, second=replace(low, shape=shape), result=shifted, subtract=True, scale=1.4423828125),
        PassThrough(source=shifted, result=powers, post=Post(activation=Activation.TABLE), coefficients=table),
        Convolution(source=powers, result=total),
        Elementwise(first=replace(total, shape=shape), second=powers, result=surface(Y, shape),
                    function=Binary.MULTIPLY),
    ]
    return program(operations, one_to_one(shape), TABLE)


def matrix_product() -> Program:
    """A [8, 12] transposed through L2, times constant weights, written transposed."""
    shape, turned, result = (1, 8, 1, 1, 12), (1, 12, 1, 1, 8), (1, 20, 1, 1, 8)
    columns = Access(space=Space.L2, shape=shape, strides=(0, 2, 0, 0, 16))
    packed = pack_dense(FORMAT, RNG.standard_normal((1, 20, 12)), None, 1)
    coefficients = coefficients_at(1, packed.streams)
    written = Access(slot=Y, shape=result, strides=(0, 2, 0, 0, 64))
    operations = [PassThrough(source=surface(X, shape), result=columns),
                  Convolution(source=replace(columns, shape=turned, strides=(0, 16, 0, 0, 2)), result=written,
                              coefficients=coefficients)]
    return program(operations, one_to_one(shape, (1, 8, 1, 1, 20)))


def runtime_product() -> Program:
    """The product of two inputs: one is copied in blocks of four channels to be the coefficients."""
    left, right, result = (1, 64, 1, 1, 16), (1, 16, 1, 1, 24), (1, 64, 1, 1, 24)
    blocked = Access(slot=SCRATCH, shape=left, strides=(0, 128, 0, 0, 8), interleave=4)
    coefficients = coefficients_at(SCRATCH, tuple(CoefficientStream(core, core * 128, 128) for core in range(16)),
                                lanes=4, runtime=True)
    operations = [Elementwise(first=surface(Z, left), result=blocked),
                  MatrixProduct(source=surface(X, right), result=surface(Y, result), coefficients=coefficients)]
    return program(operations, [("x", X, Role.INPUT, right), ("y", Y, Role.OUTPUT, result),
                                ("z", Z, Role.INPUT, left)], scratch=2048)


def handed_over() -> Program:
    """A scaled copy handed directly to the planar engine."""
    shape = (1, 3, 1, 20, 30)
    chain = Access(space=Space.CHAIN, shape=shape)
    operations = [PassThrough(source=surface(X, shape), result=chain, post=Post(scale=2.0)),
                  Elementwise(first=chain, result=surface(Y, shape), absolute=True)]
    return program(operations, one_to_one(shape))


def concatenated() -> Program:
    """Two inputs behind each other in one output."""
    first, second, whole = (1, 3, 1, 4, 20), (1, 5, 1, 4, 20), (1, 8, 1, 4, 20)
    plane = layout_of(whole).strides[1]
    operations = [PassThrough(source=surface(X, first), result=surface(Y, first)),
                  PassThrough(source=surface(Z, second), result=surface(Y, second, 3 * plane))]
    return program(operations, [*one_to_one(first, whole), ("z", Z, Role.INPUT, second)])


def normalised() -> Program:
    """Mean over everything in L2, then gain and offset vectors from the constants."""
    shape, one = (1, 8, 1, 4, 6), (1, 1, 1, 1, 1)
    flat = (1, 1, 8, 4, 6)
    sn, sc, sd, sh, sw = surface(X, shape).strides
    vectors = Access(space=Space.L2, offset=0x100, shape=(1, 1, 1, 2, 8), strides=(0, 0, 0, 0x10, 2))
    mean = resident(0, one)
    constant = Access(slot=1, shape=vectors.shape, strides=(0, 0, 0, 64, 2))
    centred = resident(0x200, shape)
    operations = [
        PassThrough(source=constant, result=vectors),
        Reduction(first=Access(slot=X, shape=flat, strides=(0, 0, sc, sh, sw)), result=mean, reduce=Reduce.SUM,
                  final_scale=1 / 256, root=Root.NONE),
        Elementwise(first=surface(X, shape), second=replace(mean, shape=shape), result=centred, subtract=True),
        GainOffset(first=centred, second=replace(vectors, shape=(1, 8, 1, 2, 1), strides=(0, 2, 0, 0x10, 0)),
                   result=surface(Y, shape)),
    ]
    return program(operations, one_to_one(shape), RNG.standard_normal(64).astype(np.float16).tobytes())


def bytes_transposed() -> Program:
    """uint8, channels and width swapped."""
    shape = (1, 20, 1, 1, 30)
    written = Access(slot=Y, shape=shape, strides=(0, 1, 0, 0, 64), dtype=DType.UINT8)
    return program([PassThrough(source=surface(X, shape, dtype=DType.UINT8), result=written)],
                   one_to_one(shape, (1, 30, 1, 1, 20)), dtype=DType.UINT8)


def base_programs() -> dict[str, Program]:
    """Every base by name."""
    image = (1, 4, 1, 8, 8)
    return {
        "convolution": convolution(image, (1, 6, 1, 8, 8), 3, padding=1, bias=True, relu=True),
        "grouped": convolution((2, 4, 1, 5, 5), (2, 3, 1, 3, 3), 3, groups=True),
        "depthwise": convolution((1, 18, 1, 7, 7), (1, 18, 1, 7, 7), 3, padding=1, unicast=1),
        "strided": sparse(), "max_pool": pooling(Pool.MAXIMUM), "average_pool": pooling(Pool.AVERAGE),
        "broadcast": broadcast_in_l2(), "two_sources": two_sources(), "softmax": softmax(),
        "matmul": replace(matrix_product(), constants=_matmul_constants()), "runtime": runtime_product(),
        "chain": handed_over(), "concat": concatenated(), "normalise": normalised(), "bytes": bytes_transposed(),
    }


def _matmul_constants() -> bytes:
    return pack_dense(FORMAT, RNG.standard_normal((1, 20, 12)), None, 1).data
