"""Layers with products: fully connected, matrix products, embeddings; and constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler


def _inner_product(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    channels, count = params.inputChannels, params.outputChannels
    weight = layer.rounded(params.weights, (count, channels))
    bias = layer.rounded(params.bias, (count,), "bias") if params.hasBias else None
    if x.type.rank >= 3 and x.shape[-2:] == (1, 1) and x.shape[-3] == channels:
        flat = layer.add("reshape", part="flat", x=x, shape=x.shape[:-2])
        result = layer.add("linear", part="flat_product", x=flat, weight=weight, bias=bias)
        return layer.add("reshape", x=result, shape=[*result.shape, 1, 1])
    if not x.shape or x.shape[-1] != channels:
        raise GraphError(f"{layer.label}: inputChannels {channels} does not fit {x.type}")
    return layer.add("linear", x=x, weight=weight, bias=bias)


def _batched_matmul(layer: CoremlLayer) -> Value:
    """x y, or x W + b: weights are stored column by column, and the layer's transposes are for two inputs only."""
    params = layer.params
    if len(layer.inputs) == 2:
        return layer.add("matmul", x=layer.real(0), y=layer.real(1), transpose_x=bool(params.transposeA),
                         transpose_y=bool(params.transposeB))
    x = layer.only()
    weight = layer.weights(params.weights, (params.weightMatrixSecondDimension, params.weightMatrixFirstDimension))
    product = layer.add("matmul", part="product" if params.hasBias else "", x=x, y=weight.T.copy())
    if not params.hasBias:
        return product
    return layer.add("add", x=product, y=layer.weights(params.bias, (params.weightMatrixSecondDimension,), "bias"))


def _table(layer: CoremlLayer, rows: int, columns: int) -> np.ndarray:
    """[rows, columns]: an entry of the vocabulary per row, its bias added."""
    params = layer.params
    table = layer.weights(params.weights, (columns, rows)).T
    if params.hasBias:
        table = layer.half(table.astype(np.float32) + layer.weights(params.bias, (columns,), "bias"), "weights")
    return np.ascontiguousarray(table)


def _indices(layer: CoremlLayer) -> Value:
    if len(layer.inputs) != 1:
        raise GraphError(f"{layer.label}: needs 1 input, found {len(layer.inputs)}")
    return layer.cast(layer.inputs[0], "int32", "indices")


def _embedding(layer: CoremlLayer) -> Value:
    indices, params = _indices(layer), layer.params
    if indices.type.rank < 3 or indices.shape[-3:] != (1, 1, 1):
        raise GraphError(f"{layer.label}: needs indices [..., 1, 1, 1], found {indices.type}")
    flat = layer.add("reshape", part="flat", x=indices, shape=[int(np.prod(indices.shape, dtype=np.int64))])
    found = layer.add("gather", part="rows", x=_table(layer, params.inputDim, params.outputChannels), indices=flat,
                      axis=0)
    return layer.add("reshape", x=found, shape=[*indices.shape[:-3], params.outputChannels, 1, 1])


def _embedding_nd(layer: CoremlLayer) -> Value:
    indices, params = _indices(layer), layer.params
    if not indices.shape or indices.shape[-1] != 1:
        raise GraphError(f"{layer.label}: needs indices [..., 1], found {indices.type}")
    flat = layer.add("squeeze", part="flat", x=indices, axes=[-1])
    return layer.add("gather", x=_table(layer, params.vocabSize, params.embeddingSize), indices=flat, axis=0)


def _dot(layer: CoremlLayer) -> Value:
    if layer.params.cosineSimilarity:
        raise layer.refuse("cosineSimilarity", True, "normalise both inputs (l2normalize) and take their product")
    values = layer.reals(2)
    product = layer.add("mul", part="product", x=values[0], y=values[1])
    return layer.add("reduce_sum", x=product, axes=[-3], keep_dims=True)


def _load_constant(layer: CoremlLayer) -> Value:
    shape = list(layer.params.shape)
    array = layer.weights(layer.params.data, shape, "data")
    if layer.kind == "loadConstant" and len(shape) == 3 and not layer.exact:
        array = array.reshape(1, *shape)
    return layer.builder.constant(array, layer.name)


LAYERS: Mapping[str, Handler] = {
    "innerProduct": _inner_product, "batchedMatmul": _batched_matmul, "embedding": _embedding,
    "embeddingND": _embedding_nd, "dot": _dot, "loadConstant": _load_constant, "loadConstantND": _load_constant,
}
