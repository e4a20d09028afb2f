"""Reductions, softmax, normalisation, products and data movement against onnxruntime and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.data(), st.sampled_from(["sum", "mean", "max", "min"]), st.booleans())
def test_reductions(apply: Any, shape: tuple[int, ...], data: Any, kind: str, keep: bool) -> None:
    rank, x = len(shape), noise(*shape)
    axes = data.draw(st.none() | st.lists(st.integers(0, rank - 1), unique=True, min_size=1))
    signs = data.draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    stated = None if axes is None else [axis - rank if signs[axis] else axis for axis in axes]
    expected = getattr(np, kind)(x, axis=None if axes is None else tuple(axes), keepdims=keep)
    np.testing.assert_allclose(apply(f"reduce_{kind}", x=x, axes=stated, keep_dims=keep), expected, rtol=1e-4,
                               atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.data())
def test_softmax_is_onnx_softmax(apply: Any, onnx_node: Any, shape: tuple[int, ...], data: Any) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = noise(*shape) * 20
    np.testing.assert_allclose(apply("softmax", x=x, axis=axis), onnx_node("Softmax", x, axis=axis), rtol=1e-5,
                               atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(SHAPES.filter(lambda shape: len(shape) > 1), st.data())
def test_layer_norm_is_onnx_layer_normalization(apply: Any, onnx_node: Any, shape: tuple[int, ...], data: Any) -> None:
    first = data.draw(st.integers(0, len(shape) - 1))
    x, gamma, beta = noise(*shape), noise(*shape[first:]), noise(*shape[first:]) + 1
    ours = apply("layer_norm", x=x, axes=list(range(first, len(shape))), gamma=gamma, beta=beta, epsilon=1e-3)
    theirs = onnx_node("LayerNormalization", x, gamma, beta, axis=first, epsilon=1e-3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_layer_norm_over_channels_takes_gamma_in_x_order(apply: Any) -> None:
    x, gamma = noise(2, 3, 4), np.array([1, 2, 3], np.float32)
    plain = apply("layer_norm", x=x, axes=[1])
    np.testing.assert_allclose(plain.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(plain.var(1), x.var(1) / (x.var(1) + 1e-5), rtol=1e-5)
    np.testing.assert_allclose(apply("layer_norm", x=x, axes=[1], gamma=gamma), plain * gamma[:, None], rtol=1e-6)
    np.testing.assert_allclose(apply("layer_norm", x=x).mean(), 0, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 3, 2, 2, 2)])
def test_batch_norm_is_onnx_batch_normalization(apply: Any, onnx_node: Any, shape: tuple[int, ...]) -> None:
    x, (mean, gamma, beta), variance = noise(*shape), noise(3, 3), np.array([0.5, 1, 2], np.float32)
    ours = apply("batch_norm", x=x, mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=1e-3)
    theirs = onnx_node("BatchNormalization", x, gamma, beta, mean, variance, epsilon=1e-3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    plain = apply("batch_norm", x=x, mean=mean, variance=variance)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    theirs = onnx_node("BatchNormalization", x, ones, zeros, mean, variance, epsilon=1e-5)
    np.testing.assert_allclose(plain, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("left", "right", "tx", "ty"), [
    ((4,), (4,), False, False), ((4,), (4, 3), False, False), ((2, 4), (4,), False, False),
    ((2, 4), (4, 3), False, False), ((4, 2), (4, 3), True, False), ((2, 4), (3, 4), False, True),
    ((4, 2), (3, 4), True, True), ((10, 2, 4), (5, 1, 4, 3), False, False), ((7, 2, 4), (4,), False, False),
    ((4,), (6, 3, 4), False, True)])
def test_matmul(apply: Any, left: tuple[int, ...], right: tuple[int, ...], tx: bool, ty: bool) -> None:
    x, y = noise(*left), noise(*right)
    expected = (np.swapaxes(x, -1, -2) if tx else x) @ (np.swapaxes(y, -1, -2) if ty else y)
    np.testing.assert_allclose(apply("matmul", x=x, y=y, transpose_x=tx, transpose_y=ty), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4), (1, 2, 3, 4)])
def test_linear_is_onnx_gemm(apply: Any, onnx_node: Any, shape: tuple[int, ...]) -> None:
    x, weight, bias = noise(*shape), noise(5, 4), noise(5)
    theirs = onnx_node("Gemm", x.reshape(-1, 4), weight, bias, transB=1).reshape(*shape[:-1], 5)
    np.testing.assert_allclose(apply("linear", x=x, weight=weight, bias=bias), theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(apply("linear", x=x, weight=weight), theirs - bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "wanted", "result"), [
    ((2, 3, 4), (6, 4), (6, 4)), ((2, 3, 4), (-1,), (24,)), ((2, 3, 4), (0, -1, 2), (2, 6, 2)),
    ((2, 3, 4), (4, 0, 2), (4, 3, 2)), ((1,), (), ()), ((), (1, 1), (1, 1))])
def test_reshape(apply: Any, shape: tuple[int, ...], wanted: tuple[int, ...], result: tuple[int, ...]) -> None:
    x = noise(*shape)
    np.testing.assert_array_equal(apply("reshape", x=x, shape=wanted), x.reshape(result))


@pytest.mark.parametrize(("name", "shape", "operands", "result"), [
    ("squeeze", (1, 3, 1, 2), {}, (3, 2)), ("squeeze", (1, 3, 1, 2), {"axes": [-2]}, (1, 3, 2)),
    ("squeeze", (1, 1), {}, ()), ("expand_dims", (3, 2), {"axes": [0, -1]}, (1, 3, 2, 1)),
    ("expand_dims", (3, 2), {"axes": [3, 1]}, (3, 1, 2, 1)), ("expand_dims", (), {"axes": [0]}, (1,)),
    ("flatten2d", (2, 3, 4), {}, (2, 12)), ("flatten2d", (2, 3, 4), {"axis": -1}, (6, 4)),
    ("flatten2d", (2, 3, 4), {"axis": 0}, (1, 24)), ("flatten2d", (2, 3, 4), {"axis": 3}, (24, 1)),
    ("identity", (2, 3), {}, (2, 3))])
def test_views(apply: Any, name: str, shape: tuple[int, ...], operands: dict[str, Any],
               result: tuple[int, ...]) -> None:
    x = noise(*shape)
    np.testing.assert_array_equal(apply(name, x=x, **operands), x.reshape(result))


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.data())
def test_transpose(apply: Any, shape: tuple[int, ...], data: Any) -> None:
    perm = data.draw(st.permutations(range(len(shape))))
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    np.testing.assert_array_equal(apply("transpose", x=x, perm=list(perm)), x.transpose(perm))
    back = [axis - len(shape) for axis in perm]
    np.testing.assert_array_equal(apply("transpose", x=x, perm=back), x.transpose(perm))


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_concat(apply: Any, shape: tuple[int, ...], data: Any, extents: list[int]) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    values = tuple(noise(*(extent if i == axis % len(shape) else size for i, size in enumerate(shape))) + extent
                   for extent in extents)
    np.testing.assert_array_equal(apply("concat", values=values, axis=axis), np.concatenate(values, axis))


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.data())
def test_tile(apply: Any, shape: tuple[int, ...], data: Any) -> None:
    reps = data.draw(st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)))
    x = noise(*shape)
    np.testing.assert_array_equal(apply("tile", x=x, reps=reps), np.tile(x, reps))


def test_concat_interleaves_slices_in_turn(apply: Any) -> None:
    values = tuple(noise(2, 3, 4) + i for i in range(3))
    result = apply("concat", values=values, axis=1, interleave=True)
    for i, value in enumerate(values):
        np.testing.assert_array_equal(result[:, i::3], value)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
def test_pad_is_onnx_pad(apply: Any, onnx_node: Any, mode: str) -> None:
    x = noise(2, 3, 4)
    ours = apply("pad", x=x, pad=[1, 2, 0, 3], mode=mode, constant_val=0.5)
    amounts = np.array([0, 1, 0, 0, 2, 3], np.int64)
    theirs = onnx_node("Pad", x, amounts, np.array(0.5, np.float32),
                       mode={"replicate": "edge"}.get(mode, mode))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("dtype", "expected"), [
    ("fp32", [-1.75, 0, 0.1, 3.5]), ("int32", [-1, 0, 0, 3]), ("bool", [True, False, True, True]),
    ("fp16", [-1.75, 0, np.float16(0.1), 3.5])])
def test_cast(apply: Any, dtype: str, expected: list[Any]) -> None:
    result = apply("cast", x=np.array([-1.75, 0, 0.1, 3.5], np.float32), dtype=dtype)
    np.testing.assert_array_equal(result, np.array(expected).astype(result.dtype))
