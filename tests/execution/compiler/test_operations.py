"""Every operation, compiled and simulated, against its reference within a stated bound."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_operands import HOST_ALONE

from openane.chips import get_chip
from openane.engine import Convolution, MatrixProduct
from openane.ops import all_ops
from openane.ops.build import GraphBuilder

FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
EXTENTS = st.lists(st.integers(1, 12), min_size=1, max_size=5).map(tuple)

UNARY = {  # settings and absolute error beside one part in 250
    "abs": ({}, 0), "ceil": ({}, 0), "clip": ({"alpha": -0.5, "beta": 1.0}, 1e-3), "elu": ({"alpha": 1.0}, 8e-3),
    "erf": ({}, 2e-3), "exp": ({}, 2e-3), "exp2": ({}, 2e-3), "floor": ({}, 0), "gelu": ({"mode": "EXACT"}, 6e-3),
    "inverse": ({"epsilon": 3.0}, 2e-3), "leaky_relu": ({"alpha": 0.1}, 1e-3), "log": ({"epsilon": 3.0}, 6e-3),
    "relu": ({}, 0), "relu6": ({}, 0), "round": ({}, 0), "rsqrt": ({"epsilon": 3.0}, 3e-3),
    "scaled_tanh": ({"alpha": 2.0, "beta": 0.5}, 4e-3), "sigmoid": ({}, 3e-3),
    "sigmoid_hard": ({"alpha": 0.2, "beta": 0.5}, 1e-3), "sign": ({}, 0), "silu": ({}, 1.5e-2), "softplus": ({}, 1e-2),
    "softsign": ({}, 2e-3), "square": ({}, 2e-3), "tanh": ({}, 2e-3),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(compare, single, name):
    operands, error = UNARY[name]
    for shape in ((2, 3, 5, 7), (130,), (1, 1, 1, 1)):
        compare(single(name, shape, **operands), absolute=error, relative=4e-3)


def test_roots_of_positive_numbers(compare, single):
    compare(single("sqrt", (3, 40)), low=0.0, high=100.0, absolute=1e-3, relative=2e-3)


@FEW
@given(shape=EXTENTS, seed=st.integers(0, 99), op=st.sampled_from(["add", "sub", "mul", "maximum", "minimum"]),
       constant=st.sampled_from(["none", "left", "right"]), data=st.data())
def test_arithmetic_with_broadcasting(compare, shape, seed, op, constant, data):
    keep = data.draw(st.tuples(*[st.booleans()] * len(shape)))
    drop = data.draw(st.integers(0, len(shape) - 1))
    other = tuple(e if k else 1 for e, k in zip(shape, keep, strict=True))[drop:]
    mine = data.draw(st.sampled_from([shape, tuple(1 if k else e for e, k in zip(shape, keep, strict=True))]))
    builder = GraphBuilder()
    x = builder.input("x", "fp16", mine)
    y = builder.constant(np.random.default_rng(seed).standard_normal(other).astype(np.float16)) \
        if constant != "none" else builder.input("y", "fp16", other)
    left, right = (y, x) if constant == "left" else (x, y)
    compare(builder.finish({"result": builder.single(op, x=left, y=right)}), seed, absolute=4e-3, relative=4e-3)


@pytest.mark.parametrize("constant", [None, 0.5, -1.0, 2.0, 3.0, -0.5, 1.0, 0.0, 1.7])
def test_powers(compare, constant):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 30))
    y = builder.input("y", "fp16", (30,)) if constant is None else constant
    compare(builder.finish({"result": builder.single("pow", x=x, y=y)}), low=0.5, absolute=1e-2, relative=1.5e-2)


@pytest.mark.parametrize("kind", ["runtime", "constant", "dividend"])
def test_division(compare, kind):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4, 3, 10))
    other = builder.input("y", "fp16", (3, 10)) if kind == "runtime" else np.float16(3.0)
    operands = {"x": other, "y": x} if kind == "dividend" else {"x": x, "y": other}
    compare(builder.finish({"result": builder.single("real_div", **operands)}), low=0.5, absolute=4e-3, relative=4e-3)


@FEW
@given(shape=EXTENTS, data=st.data(), op=st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]),
       keep=st.booleans())
def test_reductions_over_any_axes(compare, single, shape, data, op, keep):
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(0, len(shape) - 1), min_size=1).map(sorted)))
    compare(single(op, shape, axes=axes, keep_dims=keep), absolute=4e-3, relative=4e-3)


@FEW
@given(shape=EXTENTS, data=st.data())
def test_softmax_along_any_axis(compare, single, shape, data):
    compare(single("softmax", shape, axis=data.draw(st.integers(0, len(shape) - 1))), absolute=3e-3, relative=1e-2)


@FEW
@given(shape=EXTENTS, data=st.data(), affine=st.booleans())
def test_layer_norm_over_any_axes(compare, single, shape, data, affine):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1).map(sorted))
    vectors = {}
    if affine:
        rng = np.random.default_rng(len(shape))
        size = [shape[axis] for axis in axes]
        vectors = {name: rng.standard_normal(size).astype(np.float16) for name in ("gamma", "beta")}
    compare(single("layer_norm", shape, axes=axes, epsilon=1e-2, **vectors), absolute=4e-2, relative=1e-2)


@FEW
@given(shape=EXTENTS, data=st.data())
def test_data_movement_is_exact(compare, single, shape, data):
    exact = {"absolute": 0, "relative": 0}
    order = data.draw(st.permutations(range(len(shape))))
    compare(single("transpose", shape, perm=order), **exact)
    count = int(np.prod(shape))
    first = data.draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
    compare(single("reshape", shape, shape=[first, count // first]), **exact)
    axis = data.draw(st.integers(0, len(shape) - 1))
    builder = GraphBuilder()
    x = builder.input("x", "fp16", shape)
    y = builder.input("y", "fp16", tuple(3 if i == axis else e for i, e in enumerate(shape)))
    compare(builder.finish({"result": builder.single("concat", values=(x, y, x), axis=axis)}), **exact)
    compare(single("tile", shape, reps=[2 if i == axis else 1 for i in range(len(shape))]), **exact)
    compare(single("pad", shape, pad=data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=2))), **exact)


@FEW
@given(batch=st.integers(1, 3), channels=st.integers(1, 5), groups=st.integers(1, 3), multiple=st.integers(1, 3),
       height=st.integers(3, 12), width=st.integers(3, 12), kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
       stride=st.integers(1, 3), pad_type=st.sampled_from(["valid", "same", "same_lower"]), bias=st.booleans(),
       after=st.sampled_from([None, "relu", "tanh"]))
def test_convolutions(compare, batch, channels, groups, multiple, height, width, kernel, stride, pad_type, bias, after):
    rng = np.random.default_rng(height * 13 + width)
    weight = rng.standard_normal((groups * multiple * 4, channels, *kernel)) / np.sqrt(channels * kernel[0] * kernel[1])
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (batch, channels * groups, height, width))
    y = builder.single("conv", x=x, weight=weight.astype(np.float16), strides=[stride, stride], groups=groups,
                       pad_type=pad_type, bias=rng.standard_normal(len(weight)).astype(np.float16) if bias else None)
    y = builder.single(after, x=y) if after else y
    compare(builder.finish({"result": y}), absolute=6e-3, relative=3e-3)


@pytest.mark.parametrize("groups", [1, 6])
def test_dilation_is_zeros_in_the_kernel(compare, single, groups):
    weight = np.random.default_rng(5).standard_normal((6, 6 // groups, 3, 3)).astype(np.float16) / 8
    compare(single("conv", (1, 6, 11, 12), weight=weight, dilations=[2, 3], groups=groups, pad_type="same"),
            absolute=4e-3)


@FEW
@given(shape=st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(3, 14), st.integers(3, 14)),
       kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)), stride=st.integers(1, 3), pads=st.booleans(),
       ceiling=st.booleans(), exclude=st.booleans())
def test_pooling(compare, single, shape, kernel, stride, pads, ceiling, exclude):
    pad = [k // 2 for k in kernel for _ in range(2)] if pads else [0, 0, 0, 0]
    window = {"kernel_sizes": list(kernel), "strides": [stride, stride], "pad_type": "custom", "pad": pad,
              "ceil_mode": ceiling and min(kernel) >= stride}
    compare(single("max_pool", shape, **window), absolute=0, relative=0)
    compare(single("avg_pool", shape, exclude_padding_from_average=exclude, **window), absolute=2e-3)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_windows_over_everything(compare, single, op):
    for shape in ((2, 5, 7, 9), (1, 3, 40), (1, 4, 56, 56)):
        window = {"kernel_sizes": list(shape[2:]), "strides": list(shape[2:]), "pad_type": "valid"}
        model = compare(single(op, shape, **window), absolute=1e-3)
        assert len(model.program.tasks) == 1
    compare(single(op, (1, 4, 9, 9), kernel_sizes=[7, 7], strides=[7, 7], pad_type="valid"), absolute=1e-3)


def test_strides_without_a_second_window(compare, single):
    weight = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float16) / 16
    compare(single("conv", (1, 3, 10, 8), weight=weight, strides=[16, 16], pad_type="valid"), absolute=4e-3)


@FEW
@given(leading=st.lists(st.integers(1, 4), max_size=2), rows=st.integers(1, 40), reduction=st.integers(1, 70),
       columns=st.integers(1, 80), kind=st.sampled_from(["linear", "right", "left", "runtime"]), flip=st.booleans())
def test_products(compare, leading, rows, reduction, columns, kind, flip):
    rng = np.random.default_rng(rows)
    builder = GraphBuilder()

    def operand(name, *shape):
        return builder.input(name, "fp16", (*leading, *shape))

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(reduction)).astype(np.float16)

    if kind == "linear":
        y = builder.single("linear", x=operand("x", rows, reduction), weight=weights(columns, reduction),
                           bias=weights(columns))
    elif kind == "right":
        y = builder.single("matmul", x=operand("x", rows, reduction), transpose_y=flip,
                           y=weights(columns, reduction) if flip else weights(reduction, columns))
    elif kind == "left":
        y = builder.single("matmul", x=builder.constant(weights(rows, reduction)), y=operand("y", reduction, columns))
    else:
        y = builder.single("matmul", x=operand("x", rows, reduction), transpose_y=flip,
                           y=operand("y", columns, reduction) if flip else operand("y", reduction, columns))
    compare(builder.finish({"result": y}), absolute=2e-2, relative=4e-3)


def test_batch_norm_alone(compare, single):
    rng = np.random.default_rng(3)
    vectors = {name: rng.uniform(0.5, 2, 6).astype(np.float16) for name in ("mean", "variance", "gamma", "beta")}
    for shape in ((2, 6, 9), (2, 6, 5, 7), (1, 6, 2, 3, 4)):
        compare(single("batch_norm", shape, **vectors), absolute=4e-3, relative=4e-3)


def test_every_operation_has_a_lowering():
    assert [op.name for op in all_ops().values() if op.lower is None and op.decompose is None] == sorted(HOST_ALONE)


@pytest.mark.parametrize(("x", "y", "transpose_x"), [
    ((1, 2, 17, 33), (33,), False), ((40,), (40, 5), False), ((17, 1), (1, 33), False), ((1, 7), (1, 48), True),
    ((1, 65), (1, 1), True), ((5, 3), (5, 40), True), ((256, 20), (20, 33), False), ((2, 519, 3), (2, 3, 5), False),
])
def test_products_of_few_rows_of_one_line_and_of_many(compare, x, y, transpose_x):
    builder = GraphBuilder()
    left, right = builder.input("x", "fp16", x), builder.input("y", "fp16", y)
    compare(builder.finish({"z": builder.single("matmul", x=left, y=right, transpose_x=transpose_x)}), absolute=1e-2)


@pytest.mark.parametrize(("x", "y", "constant"), [
    ((3, 4, 20), (3, 20, 7), "x"), ((3, 4, 20), (20, 7), "x"), ((20,), (2, 20, 7), "x"), ((2, 4, 20), (20,), "x"),
    ((3, 4, 20), (3, 20, 7), "y"), ((4, 20), (2, 20, 7), "y"), ((20,), (2, 20, 7), "y"), ((2, 4, 20), (20,), "y"),
])
def test_batches_of_constant_matrices_are_coefficients(compare, x, y, constant):
    rng = np.random.default_rng(3)
    builder = GraphBuilder()
    left, right = (builder.constant(rng.standard_normal(shape).astype(np.float16)) if name == constant
                   else builder.input(name, "fp16", shape) for name, shape in (("x", x), ("y", y)))
    model = compare(builder.finish({"z": builder.single("matmul", x=left, y=right)}), absolute=2e-2)
    operations = [get_chip("h13").operation(task.words) for task in model.program.tasks]
    assert not any(isinstance(operation, MatrixProduct) for operation in operations)


@pytest.mark.parametrize("settings", [
    {"pad": [1, 1, 1, 1]}, {"pad": [0, 2, 3, 0], "strides": [2, 1]}, {"pad": [1, 1, 2, 2], "groups": 4},
])
def test_windows_of_nothing_but_padding(compare, settings):
    weight = np.random.default_rng(4).standard_normal((4, 4 // settings.get("groups", 1), 1, 1)).astype(np.float16)
    builder = GraphBuilder()
    y = builder.single("conv", x=builder.input("x", "fp16", (2, 4, 5, 6)), weight=weight, pad_type="custom",
                       bias=np.float16([1, 2, 3, 4]), **settings)
    model = compare(builder.finish({"y": y}), absolute=1e-2)
    operations = [get_chip("h13").operation(task.words) for task in model.program.tasks]
    assert not any(any(operation.padding) for operation in operations if isinstance(operation, Convolution))
