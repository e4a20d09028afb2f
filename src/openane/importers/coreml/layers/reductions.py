"""Layers that reduce or normalise: sums and extremes, softmax, normalisations, positions, orders."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler, Result

_MODES = ("reduce_sum", "reduce_mean", "reduce_prod", "reduce_log_sum", "reduce_sum_square", "reduce_l1_norm",
          "reduce_l2_norm", "reduce_max", "reduce_min", "reduce_argmax")
_AXES = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))
_REDUCE = {"L1": "l1_norm", "L2": "l2_norm", "Max": "max", "Min": "min", "Sum": "sum", "Prod": "prod", "Mean": "mean",
           "LogSum": "log_sum", "SumSquare": "sum_square", "LogSumExp": "log_sum_exp"}


def _reduce(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    if not 0 <= params.mode < len(_MODES) or not 0 <= params.axis < len(_AXES):
        raise layer.refuse("mode or axis", (params.mode, params.axis), "mode 0..9, axis 0..4")
    axes = _AXES[params.axis]
    if _MODES[params.mode] == "reduce_argmax":
        if len(axes) > 1:
            raise layer.refuse("argmax over several axes", list(axes), "one axis")
        return layer.add("reduce_argmax", x=x, axis=axes[0], keep_dims=True)
    return layer.add(_MODES[params.mode], x=x, axes=axes, keep_dims=True)


def _reduce_axes(op: str) -> Handler:
    def handler(layer: CoremlLayer) -> Value:
        params, x = layer.params, layer.only()
        axes = None if params.reduceAll or not params.axes else list(params.axes)
        return layer.add(op, x=x, axes=axes, keep_dims=bool(params.keepDims))
    return handler


def _softmax(layer: CoremlLayer) -> Value:
    x = layer.only()
    return layer.add("softmax", x=x, axis=-3 if x.type.rank >= 3 else -1)


def _softmax_nd(layer: CoremlLayer) -> Value:
    return layer.add("softmax", x=layer.only(), axis=layer.params.axis)


def _batchnorm(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    channels = (params.channels,)
    gamma, beta = (layer.rounded(getattr(params, key), channels, key) if key in params else None
                   for key in ("gamma", "beta"))
    epsilon = layer.number(params.epsilon or 1e-5, "epsilon")
    if params.instanceNormalization:
        return restore(layer.add("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=epsilon))
    if params.computeMeanVar and "mean" not in params:
        raise layer.refuse("computeMeanVar without instanceNormalization", True, "stored mean and variance")
    mean, variance = (layer.rounded(getattr(params, key), channels, key) for key in ("mean", "variance"))
    return restore(layer.add("batch_norm", x=x, mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=epsilon))


def _mvn(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    axes = (-3, -2, -1) if params.acrossChannels else (-2, -1)
    if x.type.rank < 3:
        raise GraphError(f"{layer.label}: needs channels, height and width, found {x.type}")
    if not params.normalizeVariance:
        mean = layer.add("reduce_mean", part="mean", x=x, axes=axes, keep_dims=True)
        return layer.add("sub", x=x, y=mean)
    return layer.add("layer_norm", x=x, axes=axes, epsilon=layer.number(params.epsilon or 1e-5, "epsilon"))


def _l2_normalize(layer: CoremlLayer) -> Value:
    x, restore = layer.image()
    return restore(layer.add("l2_norm", x=x, epsilon=layer.number(layer.params.epsilon or 1e-6, "epsilon")))


def _lrn(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    return restore(layer.add("local_response_norm", x=x, size=params.localSize,
                             alpha=layer.number(params.alpha, "alpha"), beta=layer.number(params.beta, "beta"),
                             k=layer.number(params.k or 1.0, "k")))


def _layer_normalization(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    shape = tuple(params.normalizedShape)
    if not shape or x.shape[-len(shape):] != shape:
        raise GraphError(f"{layer.label}: normalizedShape {list(shape)} is not the end of {x.type}")
    gamma, beta = (layer.weights(getattr(params, key), shape, key) if key in params else None
                   for key in ("gamma", "beta"))
    return layer.add("layer_norm", x=x, axes=list(range(-len(shape), 0)), gamma=gamma, beta=beta,
                     epsilon=layer.number(params.eps, "eps"))


def _arg(op: str) -> Handler:
    def handler(layer: CoremlLayer) -> Value:
        return layer.add(op, x=layer.only(), axis=layer.params.axis, keep_dims=not layer.params.removeDim)
    return handler


def _top_k(layer: CoremlLayer) -> Result:
    params = layer.params
    found = layer.add_all("topk", x=layer.only(), k=params.K, axis=params.axis, ascending=bool(params.useBottomK))
    return found[:len(layer.outputs)]


def _arg_sort(layer: CoremlLayer) -> Value:
    return layer.add("argsort", x=layer.only(), axis=layer.params.axis, ascending=not layer.params.descending)


def _cumulative_sum(layer: CoremlLayer) -> Value:
    params = layer.params
    return layer.add("cumsum", x=layer.only(), axis=params.axis, exclusive=bool(params.excludeFinalSum),
                     reverse=bool(params.reverse))


def _one_hot(layer: CoremlLayer) -> Value:
    params = layer.params
    if len(layer.inputs) != 1:
        raise GraphError(f"{layer.label}: needs 1 input, found {len(layer.inputs)}")
    indices = layer.cast(layer.inputs[0], "int32", "indices")
    return layer.add("one_hot", indices=indices, one_hot_vector_size=np.int32(min(params.oneHotVectorSize, 2**31 - 1)),
                     axis=params.axis, on_value=layer.number(params.onValue, "onValue"),
                     off_value=layer.number(params.offValue, "offValue"))


LAYERS: Mapping[str, Handler] = {
    "reduce": _reduce, "softmax": _softmax, "softmaxND": _softmax_nd, "batchnorm": _batchnorm, "mvn": _mvn,
    "l2normalize": _l2_normalize, "lrn": _lrn, "layerNormalization": _layer_normalization,
    "argMax": _arg("reduce_argmax"), "argMin": _arg("reduce_argmin"), "topK": _top_k, "argSort": _arg_sort,
    "cumSum": _cumulative_sum, "oneHot": _one_hot,
    **{f"reduce{name}": _reduce_axes(f"reduce_{op}") for name, op in _REDUCE.items()},
}
