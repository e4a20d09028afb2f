"""What espresso layers become. Attribute codes without a note were seen in compiled models; the others say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.composites import chained
from openane.importers.espresso import movement
from openane.importers.espresso.layer import WINDOW, EspressoLayer, Handler

_CONVOLUTION = (*WINDOW, "C", "K", "Nx", "Ny", "n_groups", "n_parallel", "has_batch_norm", "has_biases", "blob_biases",
                "blob_weights", "blob_weights_f16", "dilation_x", "dilation_y", "fused_relu", "fused_tanh")
_FUSED = {"fused_relu": "relu", "fused_tanh": "tanh"}
_PRODUCT = {"has_relu": "relu", "has_tanh": "tanh"}


def _planes(layer: EspressoLayer) -> Value:
    """The operand as [N, C, H, W]."""
    if layer.x.type.rank != 4:
        raise GraphError(f"{layer.entry.label}: the operand must have rank 4; found {layer.x.type}")
    return layer.x


def _convolution(layer: EspressoLayer) -> Value:
    """weights [C, K / n_groups, Ny, Nx]; K counts all channels read."""
    layer.known(*_CONVOLUTION)
    layer.require(n_parallel=1, has_batch_norm=0)
    entry, x = layer.entry, _planes(layer)
    channels, read, groups = (entry.integer(key, default, 1) for key, default in
                              (("C", None), ("K", None), ("n_groups", 1)))
    if read != x.shape[1] or read % groups or channels % groups:
        raise GraphError(f"{entry.label}: K must be the {x.shape[1]} channels read, and n_groups divide K and C; "
                         f"found K {read}, C {channels}, n_groups {groups}")
    kernel, strides, dilations = ([entry.integer(f"{key}{axis}", default, 1) for axis in "yx"] for key, default in
                                  (("N", None), ("stride_", 1), ("dilation_", 1)))
    weight = layer.weight((channels, read // groups, *kernel))
    return layer.finish("conv", _FUSED, x=x, weight=weight, bias=layer.bias(channels), groups=groups,
                        strides=strides, dilations=dilations, **layer.padding(kernel, strides))


def _deconvolution(layer: EspressoLayer) -> Value:
    """One kernel per channel: of others the order of the weights is shown by no model at hand."""
    layer.known(*_CONVOLUTION, "deconv_out_height", "deconv_out_width")
    layer.require(n_parallel=1, has_batch_norm=0, pad_mode=0)
    entry, x = layer.entry, _planes(layer)
    channels = entry.integer("C", None, 1)
    for key in ("K", "n_groups"):
        if entry.integer(key, None, 1) != channels or channels != x.shape[1]:
            raise entry.refuse(key, entry.values[key], f"{channels}, one kernel for each of the channels read")
    kernel, strides, dilations = ([entry.integer(f"{key}{axis}", default, 1) for axis in "yx"] for key, default in
                                  (("N", None), ("stride_", 1), ("dilation_", 1)))
    return layer.finish("conv_transpose", _FUSED, x=x, weight=layer.weight((channels, 1, *kernel)),
                        bias=layer.bias(channels), groups=channels, strides=strides, dilations=dilations,
                        **layer.padding(kernel, strides))


def _inner_product(layer: EspressoLayer) -> Value:
    """weights [nC, nB]. Tensors of rank 4 are flattened to nB channels, unless nd_mode is on; of others the last axis
    is multiplied."""
    layer.known("nB", "nC", "has_biases", "blob_biases", "blob_weights", "blob_weights_f16", "has_relu", "has_tanh",
                "has_prelu")
    layer.require(has_prelu=0, is_lookup=0, quantization_mode=0)
    entry, x = layer.entry, layer.x
    read, written = entry.integer("nB", None, 1), entry.integer("nC", None, 1)
    weight, bias = layer.weight((written, read)), layer.bias(written)
    batch = x.shape[0] if x.shape else 1
    if x.type.rank == 4 and not entry.flag("nd_mode") and x.type.elements == batch * read:
        flat = x if x.shape[2:] == (1, 1) else layer.add("reshape", "flat", x=x, shape=(batch, read, 1, 1))
        return layer.finish("conv", _PRODUCT, x=flat, weight=weight.reshape(written, read, 1, 1), bias=bias)
    if x.shape[-1:] != (read,):
        raise GraphError(f"{entry.label}: nB must be the number of elements multiplied; found {read} for {x.type}")
    return layer.finish("linear", _PRODUCT, x=x, weight=weight, bias=bias)


def _batch_norm(layer: EspressoLayer) -> Value:
    """The blob holds gamma, beta, mean and variance of every channel in turn; with training_instancenorm the mean and
    variance are the operand's own. An epsilon nobody states is 1e-5 (inferred: Core ML's default)."""
    layer.known("C", "blob_batchnorm_params", "training", "training_instancenorm", "training_eps", "training_momentum")
    entry, x = layer.entry, layer.x
    channels = entry.integer("C", None, 1)
    if x.type.rank < 3 or x.shape[-3] != channels:
        raise GraphError(f"{entry.label}: C must be the channels read; found {channels} for {x.type}")
    table = layer.blobs.read(entry, "blob_batchnorm_params", 4 * channels, "<f4").reshape(channels, 4)
    gamma, beta, mean, variance = (np.ascontiguousarray(column) for column in table.T)
    epsilon = entry.number("training_eps", 1e-5)
    if entry.flag("training_instancenorm"):
        return layer.add("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=epsilon)
    if entry.flag("training"):
        raise entry.refuse("training", 1, "training 0, or training_instancenorm 1")
    if (variance.astype(np.float64) + epsilon <= 0).any():
        raise GraphError(f"{entry.label}: variances must be positive")
    return layer.add("batch_norm", x=x, mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=epsilon)


def _activation(op: str, **parameters: str) -> Callable[[EspressoLayer], Value]:
    def build(layer: EspressoLayer) -> Value:
        numbers: dict[str, Any] = {name: layer.entry.number(key) for name, key in parameters.items()}
        layer.known("mode", "alpha", "beta")
        return layer.add(op, x=layer.x, **numbers)
    return build


def _gelu(mode: str) -> Callable[[EspressoLayer], Value]:
    def build(layer: EspressoLayer) -> Value:
        layer.known("mode", "alpha", "beta")
        return layer.add("gelu", x=layer.x, mode=mode)
    return build


ACTIVATIONS: Mapping[int, Callable[[EspressoLayer], Value]] = {
    0: _activation("relu"), 1: _activation("tanh"), 2: _activation("leaky_relu", alpha="alpha"),
    3: _activation("sigmoid"), 6: _activation("linear_activation", alpha="alpha", beta="beta"),
    8: _activation("elu", alpha="alpha"), 10: _activation("softplus"), 19: _gelu("EXACT"),
    21: _gelu("TANH_APPROXIMATION"), 22: _gelu("SIGMOID_APPROXIMATION"), 25: _activation("silu"),
}
"""Activations by mode. Which of 19, 21 and 22 is which form of GELU is inferred from the order of Core ML's own."""


BINARY = {0: "add", 1: "mul", 33: "sub", 102: "real_div", 22: "minimum", 23: "maximum", 13: "pow"}
CHAINED = ("add", "mul", "minimum", "maximum")
"""Elementwise operations by code, and those that take more than two operands."""
SCALAR = {2: "add", 3: "mul", 13: "pow"}
"""Elementwise operations of one operand and alpha, by code."""
CLAMP = 119


def _elementwise(layer: EspressoLayer) -> Value:
    layer.known("operation", "alpha", "beta", "fused_relu")
    entry = layer.entry
    code = entry.integer("operation", 0)
    if code == CLAMP:
        low, high = entry.number("alpha"), entry.number("beta")
        if low > high:
            raise GraphError(f"{entry.label}: alpha, the lower end, must not exceed beta; found {low:g} and {high:g}")
        return layer.finish("clip", _FUSED_RELU, x=layer.x, alpha=low, beta=high)
    layer.require(beta=0)
    if len(layer.inputs) == 1 and code in SCALAR:
        return layer.finish(SCALAR[code], _FUSED_RELU, x=layer.x, y=entry.number("alpha"))
    op = entry.choice("operation", BINARY, 0)
    layer.require(alpha=1)
    if op in CHAINED and len(layer.inputs) > 2:
        *first, last = layer.inputs
        return layer.finish(op, _FUSED_RELU, x=chained(layer, op, first, last="most"), y=last)
    x, y = layer.operands(2)
    return layer.finish(op, _FUSED_RELU, x=x, y=y)


_FUSED_RELU = {"fused_relu": "relu"}


def _pool(layer: EspressoLayer) -> Value:
    """avg_or_max 0 is the mean, 1 the largest; top_shape_style 2 counts a last window that is not full."""
    layer.known(*WINDOW, "avg_or_max", "is_global", "size_x", "size_y", "top_shape_style",
                "average_count_exclude_padding")
    entry, x = layer.entry, _planes(layer)
    largest = entry.choice("avg_or_max", {0: False, 1: True})
    if entry.flag("is_global"):
        return layer.add("reduce_max" if largest else "reduce_mean", x=x, axes=(2, 3), keep_dims=True)
    kernel = [entry.integer(f"size_{axis}", None, 1) for axis in "yx"]
    strides = [entry.integer(f"stride_{axis}", 1, 1) for axis in "yx"]
    ceiling = entry.choice("top_shape_style", {0: False, 2: True}, 0)
    settings = {"kernel_sizes": kernel, "strides": strides, "ceil_mode": ceiling, **layer.padding(kernel, strides)}
    if largest:
        return layer.add("max_pool", x=x, **settings)
    exclude = entry.flag("average_count_exclude_padding")
    return layer.add("avg_pool", x=x, exclude_padding_from_average=exclude, **settings)


def _softmax(layer: EspressoLayer) -> Value:
    """Over the channels."""
    layer.known("C")
    if layer.x.type.rank < 3:
        raise GraphError(f"{layer.entry.label}: the operand must have channels; found {layer.x.type}")
    return layer.add("softmax", x=layer.x, axis=-3)


def _softmax_nd(layer: EspressoLayer) -> Value:
    layer.known("nd_axis")
    return layer.add("softmax", x=layer.x, axis=layer.entry.integer("nd_axis", None, -8))


def _upsample(layer: EspressoLayer) -> Value:
    """mode 0 repeats elements, 1 interpolates between their centres."""
    layer.known("mode", "align_corners", "scaling_factor_x", "scaling_factor_y", "is_legacy_mode",
                "use_fractional_scale_factors", "fractional_scaling_factor_x", "fractional_scaling_factor_y")
    layer.require(is_legacy_mode=0, use_fractional_scale_factors=0)
    entry, x = layer.entry, _planes(layer)
    factors: dict[str, Any] = {f"scale_factor_{name}": entry.number(f"scaling_factor_{axis}") for name, axis in
               (("height", "y"), ("width", "x"))}
    if entry.choice("mode", {0: True, 1: False}, 0):
        return layer.add("upsample_nearest_neighbor", x=x, **factors)
    return layer.add("upsample_bilinear", x=x, align_corners=entry.flag("align_corners"), **factors)


def _batch_matmul(layer: EspressoLayer) -> Value:
    layer.known("adj_x", "adj_y")
    x, y = layer.operands(2)
    return layer.add("matmul", x=x, y=y, transpose_x=layer.entry.flag("adj_x"),
                     transpose_y=layer.entry.flag("adj_y"))


HANDLERS: Mapping[str, Handler] = {
    **movement.HANDLERS, "convolution": _convolution, "deconvolution": _deconvolution,
    "inner_product": _inner_product, "batchnorm": _batch_norm, "elementwise": _elementwise, "pool": _pool,
    "activation": lambda layer: layer.entry.choice("mode", ACTIVATIONS)(layer), "softmax": _softmax,
    "softmax_nd": _softmax_nd, "upsample": _upsample, "batch_matmul": _batch_matmul,
}
"""What each layer becomes, by its type."""
