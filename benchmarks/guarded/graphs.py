"""Two hundred small graphs that together use every MIL operation: each operation alone, and a few at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from support.random_graphs import Maker
from support.random_operands import TABLE

from guarded.numbers import Numbers
from openane.compiler import Model, compile
from openane.errors import GraphError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

TRIES = 200
"""Draws until operands fit each other."""
ALONE = tuple(op for op in sorted(TABLE) if op != "argsort")
TOGETHER = (
    "conv batch_norm relu", "conv add relu max_pool", "conv sigmoid mul avg_pool", "conv conv concat conv",
    "conv_transpose add clip", "linear gelu linear add", "layer_norm linear silu mul linear",
    "matmul add softmax matmul", "transpose matmul transpose reshape", "split concat mul relu",
    "reduce_mean sub square reduce_mean rsqrt mul", "stack pixel_unshuffle not_equal sin",
    "batch_norm reverse_sequence floor scatter", "real_div reduce_mean softplus", "affine minimum floor",
    "reduce_l2_norm reshape relu", "l2_pool rsqrt linear", "expand_dims reduce_argmax instance_norm concat",
    "rsqrt reduce_sum inverse logical_xor depth_to_space", "inverse linear squeeze erf max_pool",
    "gelu rms_norm less linear_activation reduce_log_sum_exp",
    "tanh resize_nearest_neighbor add resize_nearest_neighbor", "round reduce_l2_norm cumsum upsample_nearest_neighbor",
    "rnn local_response_norm atanh", "cos linear_activation scatter_nd identity",
    "conv_transpose slice_update ceil round softplus", "flatten2d resize floor sign",
    "max_pool relu6 tile linear_activation", "log tile logical_not space_to_depth",
    "sqrt logical_or resize_nearest_neighbor gelu", "matmul cast resize_bilinear ceil",
    "pow softplus_parametric layer_norm", "sigmoid linear_activation cumsum slice_by_size less",
    "equal atanh l2_pool sigmoid_hard", "select reduce_max transpose gather",
)
LONG = (
    "conv_transpose slice_by_index softmax resize_bilinear", "reshape logical_and add local_response_norm",
    "relu space_to_batch instance_norm", "transpose avg_pool inverse relu", "abs slice_by_index reshape",
    "softmax linear", "conv softmax", "conv relu conv add", "matmul gelu reduce_sum", "conv_transpose transpose relu",
    "erf reshape softmax", "softmax pow concat softmax",
)
CONSTANT = ("constexpr_affine_dequantize", "constexpr_cast", "fill", "non_zero", "range_1d")
"""Operations of ALONE whose operands are constants: another one beside them reads the graph's input."""
HOSTED = ("one_hot", "reduce_prod")
"""Graphs that need the host."""


def makers() -> dict[str, Callable[[str], Model]]:
    """What compiles each graph for a target, by name."""
    return {name: partial(_compiled, name, make) for name, make in graphs().items()}


def _compiled(name: str, make: Callable[[], Graph], target: str) -> Model:
    return compile(make(), target, name in HOSTED)


def graphs() -> dict[str, Callable[[], Graph]]:
    """What makes each graph, by name."""
    made: dict[str, Callable[[], Graph]] = {
        op: partial(chain, (op, "abs") if op in CONSTANT else (op,)) for op in ALONE}
    made |= {"+".join(text.split()): partial(chain, text.split()) for text in TOGETHER}
    made |= {"+".join(["long", *text.split()]): partial(chain, text.split(), long=True) for text in LONG}
    return made | SPECIAL


def chain(operations: Sequence[str], long: bool = False) -> Graph:
    """Operations in this order, each reading inputs, constants and results before it as drawn for their names; one axis
    of drawn shapes is long where `long` says so. Every value nobody reads is an output."""
    first = zlib.crc32(" ".join(operations).encode())
    for seed in range(first, first + TRIES):
        try:
            return _drawn(operations, seed, long)
        except GraphError:
            continue
    raise GraphError(f"no operands of {', '.join(operations)} fit each other")


def _drawn(operations: Sequence[str], seed: int, long: bool) -> Graph:
    maker = Maker(seed, long)
    maker.numbers = Numbers("graphs", seed)  # type: ignore[assignment]
    for op in operations:
        results = maker.builder.add(op, **TABLE[op](maker))
        maker.values += results if isinstance(results, tuple) else (results,)
    if not maker.inputs:
        raise GraphError("no input was drawn")
    read = maker.builder.finish(maker.values[-1:]).users()
    return maker.builder.finish([value for value in maker.values if id(value) not in read])


def _compressed(weight: Callable[[GraphBuilder, Numbers], Value]) -> Graph:
    """A convolution by a [8, 4, 3, 3] weight in a compressed form."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 9, 9))
    made = weight(builder, Numbers("compressed", weight.__name__))
    return builder.finish({"y": builder.single("conv", x=x, weight=made, pad_type="same")})


SHAPE = (8, 4, 3, 3)


def _blocks(builder: GraphBuilder, numbers: Numbers) -> Value:
    return builder.single("constexpr_blockwise_shift_scale", data=numbers.integers(-128, 128, SHAPE, np.int8),
                          scale=(numbers.integers(1, 9, (8, 1, 1, 1)) / 512).astype(np.float16))


def _palette(builder: GraphBuilder, numbers: Numbers) -> Value:
    return builder.single("constexpr_lut_to_dense", indices=numbers.integers(0, 16, SHAPE, np.uint8),
                          lut=numbers.exact((1, 1, 1, 1, 16, 1), 0.25).astype(np.float16))


def _sparse(builder: GraphBuilder, numbers: Numbers) -> Value:
    mask = numbers.integers(0, 2, SHAPE, np.uint8)
    return builder.single("constexpr_sparse_to_dense", mask=mask,
                          nonzero_data=numbers.exact(int(mask.sum()), 0.25).astype(np.float16))


def _sparse_palette(builder: GraphBuilder, numbers: Numbers) -> Value:
    mask = numbers.integers(0, 2, SHAPE, np.uint8)
    indices = numbers.integers(0, 16, int(mask.sum()), np.uint8)
    same, values = builder.add("constexpr_lut_to_sparse", indices_mask=mask, indices_nonzero_data=indices,
                               lut=numbers.integers(-8, 8, (1, 1, 1, 1, 16, 1), np.int8))
    same, values = builder.add("constexpr_sparse_blockwise_shift_scale", data_mask=same, nonzero_data=values,
                               scale=(numbers.integers(1, 9, (8, 1, 1, 1)) / 512).astype(np.float16))
    return builder.single("constexpr_sparse_to_dense", nonzero_data=values, mask=same)


def _sorted() -> Graph:
    """Positions in ascending order, of few enough that the engine sorts them."""
    builder = GraphBuilder()
    return builder.finish({"y": builder.single("argsort", x=builder.input("x", "fp16", (2, 7, 5)), axis=1)})


def _table() -> Graph:
    """An activation by a table of one's own: a parabola over -4..4."""
    knots = np.linspace(-4, 4, 33)
    builder = GraphBuilder()
    y = builder.single("lut_activation", x=builder.input("x", "fp16", (1, 5, 6, 7)), knots=list(knots * knots / 8),
                       clips=[-4.0, 4.0], values=[2.0, 2.0], exponent=2, kind="CENTRED", scale=1.0, bias=0.0)
    return builder.finish({"y": y})


def _steps() -> Graph:
    """Whole steps of a tensor, and of a convolution's sums, which count them."""
    builder = GraphBuilder()
    x = builder.single("nearest_steps", x=builder.input("x", "fp16", (1, 4, 6, 6)), units=3.7, low=-128.0, high=127.0,
                       scale=0.27)
    sums = builder.single("conv", x=x, weight=np.linspace(-1, 1, 72).reshape(2, 4, 3, 3).astype(np.float16))
    y = builder.single("nearest_steps", x=sums, units=1.9, low=-3.0, high=252.0, zero=3.0)
    return builder.finish({"y": y})


def _norm_of_steps() -> Graph:
    """Rows of whole steps as the steps of their norms, with a gain and an offset of columns."""
    builder = GraphBuilder()
    vectors = (np.linspace(low, high, 24, dtype=np.float32).reshape(1, 1, 24) for low, high in ((20, 45), (-9, 9)))
    return builder.finish({"y": builder.single("whole_norm", x=builder.input("x", "fp16", (6, 2, 24)), epsilon=0.02,
                                               **dict(zip(("gain", "offset"), vectors, strict=True)))})


def _norm_of_numbers() -> Graph:
    """Rows of numbers of fp16 as the steps of their norms."""
    builder = GraphBuilder()
    gain = np.linspace(20, 45, 24, dtype=np.float32).reshape(1, 1, 24)
    return builder.finish({"y": builder.single("whole_norm", x=builder.input("x", "fp16", (6, 2, 24)), gain=gain,
                                               whole=False)})


def _spread_of_steps() -> Graph:
    """Variances of rows of whole steps, in steps."""
    builder = GraphBuilder()
    return builder.finish({"y": builder.single("whole_spread", x=builder.input("x", "fp16", (6, 2, 24)), units=0.21)})


def _product() -> Graph:
    """A product of elements, which the host computes between two programs."""
    builder = GraphBuilder()
    rows = builder.single("tanh", x=builder.input("x", "fp16", (2, 5, 4)))
    return builder.finish({"y": builder.single("relu", x=builder.single("reduce_prod", x=rows, axes=[1]))})


def _many_ports() -> Graph:
    """More inputs than one program has slots for."""
    builder = GraphBuilder()
    total = builder.input("x0", "fp16", (1, 4, 2, 8))
    for number in range(1, 40):
        total = builder.single("add", x=total, y=builder.input(f"x{number}", "fp16", (1, 4, 2, 8)))
    return builder.finish({"total": total})


def _state() -> Graph:
    """A state that a run adds to."""
    builder = GraphBuilder()
    state = builder.state("total", "fp16", (3, 8))
    total = builder.single("add", x=builder.read(state), y=builder.input("x", "fp16", (3, 8)))
    builder.write(state, total)
    return builder.finish({"y": builder.single("relu", x=total)})


SPECIAL: dict[str, Callable[[], Graph]] = {
    "constexpr_blockwise_shift_scale": partial(_compressed, _blocks),
    "constexpr_lut_to_dense": partial(_compressed, _palette),
    "constexpr_sparse_to_dense": partial(_compressed, _sparse),
    "constexpr_lut_to_sparse": partial(_compressed, _sparse_palette),
    "argsort": _sorted, "lut_activation": _table, "nearest_steps": _steps,
    "whole_norm": _norm_of_steps, "norm_of_numbers": _norm_of_numbers, "whole_spread": _spread_of_steps,
    "reduce_prod": _product, "many_ports": _many_ports, "state": _state,
}
"""What TABLE does not draw, or larger than the engine takes it."""
