"""Layers of neural networks as coremltools makes them: the same numbers as its ML program of the same operations."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.needs import library

from openane.importers import load_coreml
from openane.ops.evaluate import evaluate

SHAPE = (1, 4, 6, 8)
PLAIN = ("relu", "tanh", "sigmoid", "softsign", "softplus", "relu6", "sin", "cos", "tan", "atan", "sinh", "cosh",
         "ceil", "floor", "sign", "abs", "exp", "exp2", "erf")
REDUCTIONS = ("sum", "mean", "max", "min", "l1_norm", "l2_norm", "log_sum", "log_sum_exp", "sum_square", "prod")


@pytest.fixture(scope="module")
def coremltools():
    """The package, which warns about the versions of everything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library("coremltools")


def halves(*shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    return np.asarray(random.standard_normal(shape) / 2, np.float16).astype(np.float32)


def operations(mb, x):
    """One result per operation."""
    four, positive = halves(4), mb.add(x=mb.abs(x=x), y=0.5)
    weight = halves(6, 4, 3, 3)
    yield from (getattr(mb, op)(x=x) for op in PLAIN)
    yield from (getattr(mb, op)(x=positive) for op in ("sqrt", "rsqrt", "inverse", "log"))
    yield from (getattr(mb, f"reduce_{op}")(x=positive, axes=[1, -1], keep_dims=True) for op in REDUCTIONS)
    yield mb.conv(x=x, weight=weight, bias=halves(6), pad_type="custom", pad=[1, 0, 2, 1], strides=[2, 1])
    yield mb.conv(x=x, weight=weight, pad_type="same", strides=[2, 2])
    yield mb.conv(x=x, weight=weight[:, :2], pad_type="valid", groups=2, dilations=[2, 1])
    yield mb.conv_transpose(x=x, weight=halves(4, 3, 3, 3), groups=2, strides=[1, 2], pad_type="custom",
                            pad=[1, 1, 0, 1])
    yield mb.max_pool(x=x, kernel_sizes=[2, 3], strides=[2, 2], pad_type="custom", pad=[1, 0, 1, 1])
    yield mb.max_pool(x=x, kernel_sizes=[3, 3], strides=[2, 2], pad_type="valid", ceil_mode=True)
    yield mb.avg_pool(x=x, kernel_sizes=[3, 3], strides=[2, 2], pad_type="same", exclude_padding_from_average=True)
    yield mb.avg_pool(x=x, kernel_sizes=[3, 3], strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1])
    yield mb.batch_norm(x=x, mean=four, variance=np.abs(four) + 1, gamma=four, beta=four)
    yield mb.instance_norm(x=x, gamma=four, beta=four)
    yield mb.layer_norm(x=x, axes=[-1], gamma=halves(8), beta=halves(8))
    yield mb.l2_norm(x=x, epsilon=1e-3)
    yield mb.local_response_norm(x=x, size=3, alpha=0.5, beta=0.75, k=1.5)
    yield mb.prelu(x=x, alpha=four)
    yield mb.sigmoid_hard(x=x, alpha=0.2, beta=0.5)
    yield mb.softplus_parametric(x=x, alpha=np.abs(four) + 0.5, beta=np.abs(four) + 0.5)
    yield mb.clamped_relu(x=x, alpha=0.2, beta=0.6)
    yield mb.gelu(x=x, mode="TANH_APPROXIMATION")
    yield from (getattr(mb, op)(x=x, y=halves(8) + 2) for op in ("sub", "mul", "real_div", "floor_div", "maximum"))
    yield mb.pow(x=positive, y=2.5)
    yield mb.concat(values=[x, positive], axis=-1)
    yield mb.split(x=x, split_sizes=[3, 5], axis=3)[1]
    yield mb.transpose(x=x, perm=[0, 2, 3, 1])
    yield mb.flatten2d(x=x, axis=2)
    yield mb.pad(x=x, pad=[0, 0, 0, 0, 1, 2, 0, 1], mode="constant", constant_val=0.5)
    yield mb.slice_by_index(x=x, begin=[0, 1, 0, 2], end=[1, 3, 6, 8], stride=[1, 1, 2, 3])
    yield mb.slice_by_index(x=x, begin=[0, 0, -3, 0], end=[1, 4, -1, 5], squeeze_mask=[True, False, False, False])
    yield mb.reverse(x=x, axes=[1, 3])
    yield mb.upsample_bilinear(x=x, scale_factor_height=2.0, scale_factor_width=2.0, align_corners=True)
    yield mb.upsample_bilinear(x=x, scale_factor_height=2.0, scale_factor_width=2.0, align_corners=False)
    yield mb.resize_bilinear(x=x, target_size_height=9, target_size_width=5, sampling_mode="STRICT_ALIGN_CORNERS")
    yield mb.space_to_depth(x=x, block_size=2)
    yield mb.depth_to_space(x=x, block_size=2)
    yield mb.pixel_shuffle(x=x, upscale_factor=2)
    yield mb.softmax(x=x, axis=1)
    yield mb.linear(x=x, weight=halves(5, 8), bias=halves(5))
    yield mb.matmul(x=x, y=positive, transpose_y=True)
    yield mb.matmul(x=x, y=halves(6, 5), transpose_x=True)
    yield mb.topk(x=x, k=3, axis=-1)[0]
    yield mb.cumsum(x=x, axis=2)
    yield mb.band_part(x=x, lower=1, upper=2)
    yield mb.select(cond=mb.logical_and(x=mb.less(x=x, y=np.float32(0.3)), y=mb.greater(x=x, y=np.float32(-0.3))), a=x,
                    b=positive)
    yield mb.gather(x=x, indices=np.array([3, 0], np.int32), axis=1)
    yield from volumes(mb, mb.reshape(x=x, shape=[1, 4, 3, 4, 4]))
    flat = mb.reshape(x=x, shape=[12, 16])
    where = np.array([[2, 0, 1], [5, 1, 3]], np.int32)
    yield mb.gather_nd(x=flat, indices=where[:, :2])
    yield mb.scatter(data=flat, indices=where[0], updates=halves(3, 16), axis=0, mode="add")
    yield mb.scatter_along_axis(data=flat, indices=np.arange(32, dtype=np.int32).reshape(2, 16) % 12,
                                updates=halves(2, 16), axis=0, mode="update")
    yield mb.scatter_nd(data=flat, indices=where[:, :1], updates=halves(2, 16), mode="max")
    yield from mb.non_maximum_suppression(boxes=mb.reshape(x=positive, shape=[1, 48, 4]), iou_threshold=0.3,
                                          scores=mb.reshape(x=positive, shape=[1, 48, 4]), score_threshold=0.6,
                                          max_boxes=20)
    yield from recurrent(mb, mb.reshape(x=x, shape=[6, 4, 8]), mb.reduce_mean(x=x, axes=[0, 2], keep_dims=False))


def volumes(mb, x):
    """Layers of [1, 4, 3, 4, 4]."""
    yield mb.conv(x=x, weight=halves(6, 2, 3, 2, 2), bias=halves(6), groups=2, pad_type="custom",
                  pad=[1, 1, 0, 1, 1, 0])
    yield mb.conv(x=x, weight=halves(6, 4, 2, 2, 2), pad_type="same", strides=[1, 2, 1])
    yield mb.conv_transpose(x=x, weight=halves(4, 3, 2, 3, 2), bias=halves(3), strides=[2, 1, 2])
    yield mb.max_pool(x=x, kernel_sizes=[2, 2, 2], strides=[1, 2, 2], pad_type="valid")
    yield mb.avg_pool(x=x, kernel_sizes=[2, 2, 3], strides=[1, 1, 1], pad_type="custom", pad=[0, 1, 1, 0, 1, 1],
                      exclude_padding_from_average=True)
    yield mb.reduce_max(x=x, axes=[2, 3, 4], keep_dims=True)


def recurrent(mb, x, states):
    """Sequences of 6 steps, 4 sequences of 8 features each, with states of 8, 3 and twice 3 features. Every layer has
    operands of its own: coremltools names what it makes of one after it."""
    count = iter(range(1, 100))

    def given(width):
        pairs = mb.slice_by_index(x=states, begin=[0, 0], end=[4, width])
        return mb.add(x=pairs, y=np.float32(next(count) / 64))

    def sequence():
        return mb.add(x=x, y=np.float32(next(count) / 64))

    for direction, whole in (("forward", True), ("reverse", False)):
        options = {"direction": direction, "output_sequence": whole}
        yield from mb.rnn(x=sequence(), initial_h=given(8), weight_ih=halves(8, 8), weight_hh=halves(8, 8) / 4,
                          bias=halves(8), activation="relu", **options)
        yield from mb.gru(x=sequence(), initial_h=given(3), weight_ih=halves(9, 8), weight_hh=halves(9, 3),
                          bias=halves(9), **options)
        yield from mb.lstm(x=sequence(), initial_h=given(3), initial_c=given(3), weight_ih=halves(12, 8),
                           weight_hh=halves(12, 3), bias=halves(12), peephole=halves(9), clip=0.5, **options)
    yield from mb.lstm(x=sequence(), initial_h=given(6), initial_c=given(6), weight_ih=halves(12, 8),
                       weight_hh=halves(12, 3), weight_ih_back=-halves(12, 8), weight_hh_back=halves(12, 3),
                       bias=halves(12), bias_back=-halves(12), direction="bidirectional", output_sequence=True)


@pytest.mark.filterwarnings("ignore")
def test_networks_compute_what_programs_compute(coremltools):
    mb = coremltools.converters.mil.Builder

    @mb.program(input_specs=[mb.TensorSpec(SHAPE)])
    def program(x):
        return tuple(mb.identity(x=y, name=f"out{number}") for number, y in enumerate(operations(mb, x)))

    x, found = halves(*SHAPE), []
    for form in ({"convert_to": "mlprogram", "compute_precision": coremltools.precision.FLOAT32},
                 {"convert_to": "neuralnetwork"}):
        found.append(evaluate(load_coreml(coremltools.convert(program, **form)), {"x": x}))
    assert len(found[0]) > 75
    for name, expected in found[0].items():
        np.testing.assert_allclose(found[1][name], expected, atol=2e-3, rtol=2e-3, err_msg=name)
