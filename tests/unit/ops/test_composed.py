"""References of composed operations against onnxruntime's operators of the same meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RNG = np.random.default_rng(3)
IMAGE = RNG.standard_normal((2, 6, 5, 4)).astype(np.float32)


@pytest.mark.parametrize("axes", [[1], [2, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("name", "kind"), [
    ("reduce_l1_norm", "ReduceL1"), ("reduce_l2_norm", "ReduceL2"), ("reduce_log_sum", "ReduceLogSum"),
    ("reduce_log_sum_exp", "ReduceLogSumExp"), ("reduce_sum_square", "ReduceSumSquare"), ("reduce_prod", "ReduceProd"),
])
def test_reductions(apply: Any, onnx_node: Any, name: str, kind: str, axes: list[int], keep: bool) -> None:
    x = np.abs(IMAGE)
    wanted = onnx_node(kind, x, np.array(axes), keepdims=int(keep))
    np.testing.assert_allclose(apply(name, x=x, axes=axes, keep_dims=keep), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_of_equal_elements_the_first_is_found(apply: Any, axis: int) -> None:
    x = np.round(IMAGE)
    np.testing.assert_array_equal(apply("reduce_argmax", x=x, axis=axis), np.argmax(x, axis))
    np.testing.assert_array_equal(apply("reduce_argmin", x=x, axis=axis), np.argmin(x, axis))
    np.testing.assert_array_equal(apply("argsort", x=x, axis=axis), np.argsort(-x, axis, kind="stable"))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_norm(apply: Any, onnx_node: Any, size: int) -> None:
    wanted = onnx_node("LRN", IMAGE, size=size, alpha=0.1, beta=0.6, bias=1.5)
    found = apply("local_response_norm", x=IMAGE, size=size, alpha=0.1, beta=0.6, k=1.5)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_instance_norm(apply: Any, onnx_node: Any) -> None:
    gamma, beta = (RNG.standard_normal(6).astype(np.float32) for _ in range(2))
    wanted = onnx_node("InstanceNormalization", IMAGE, gamma, beta, epsilon=1e-3)
    np.testing.assert_allclose(apply("instance_norm", x=IMAGE, gamma=gamma, beta=beta, epsilon=1e-3), wanted, rtol=1e-3,
                               atol=1e-5)


@pytest.mark.parametrize("equation", ["abcd,abde->abce", "abcd,cdef->afbe", "abcd,abcd->db", "abcd,cd->abcd"])
def test_einsum(apply: Any, onnx_node: Any, equation: str) -> None:
    size = {"a": 2, "b": 6, "c": 5, "d": 4, "e": 3, "f": 2}
    other = RNG.standard_normal([size[letter] for letter in equation.partition("->")[0].split(",")[1]])
    values = (IMAGE, other.astype(np.float32))
    wanted = onnx_node("Einsum", *values, equation=equation)
    np.testing.assert_allclose(apply("einsum", values=values, equation=equation), wanted, rtol=1e-4, atol=1e-5)


def test_l2_norm_is_over_the_last_three_dimensions(apply: Any) -> None:
    found = apply("l2_norm", x=IMAGE, epsilon=0.0)
    np.testing.assert_allclose(np.square(found).reshape(2, -1).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(apply("l2_norm", x=IMAGE[0], epsilon=0.0), found[0], rtol=1e-5)


def test_attention_is_softmax_between_products(apply: Any, onnx_node: Any) -> None:
    query, key, value = (RNG.standard_normal((2, 3, n, 8)).astype(np.float32) for n in (4, 5, 5))
    mask = RNG.random((4, 5)) < 0.7
    mask[:, 0] = True
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(8) + np.where(mask, 0, -np.inf)
    wanted = onnx_node("Softmax", scores.astype(np.float32), axis=-1) @ value
    found = apply("scaled_dot_product_attention", query=query, key=key, value=value, attn_mask=mask)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
