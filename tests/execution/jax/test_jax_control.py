"""Loops, branches, lookups and scattering of JAX on the simulator, beside JAX itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.needs import library

from openane.importers import load_graph
from openane.passes.order import simplify

jax = library("jax")
pytestmark = [pytest.mark.needs("jax", "flax"), pytest.mark.filterwarnings("ignore")]
jnp, lax, nn = jax.numpy, jax.lax, jax.nn
DRAW = np.random.default_rng(3)
X = DRAW.standard_normal((2, 6, 8)).astype(np.float32)
W = (DRAW.standard_normal((8, 8)) / 3).astype(np.float32)
IDS = np.array([0, 1, 0, 2, 2, 1])


def hold(functions: dict[str, Callable[..., Any]], *examples: Any) -> None:
    """All functions in one program compute what JAX computes."""
    import openane.jax

    wanted = {name: function(*examples) for name, function in functions.items()}
    found = openane.jax.to_engine(lambda *given: {name: each(*given) for name, each in functions.items()},
                                  *examples)(*examples)
    for name, expected in wanted.items():
        for mine, theirs in zip(jax.tree.leaves(found[name]), jax.tree.leaves(expected), strict=True):
            assert mine.shape == theirs.shape, name
            np.testing.assert_allclose(mine, theirs, atol=5e-3 * max(1.0, float(np.abs(theirs).max())), err_msg=name)


def test_loops_whose_turns_are_counted():
    hold({
        "scan": lambda x: lax.scan(lambda c, t: (jnp.tanh(c @ W + t), c), jnp.zeros((2, 8)), x.transpose(1, 0, 2)),
        "reversed": lambda x: lax.scan(lambda c, t: (c * 0.5 + t,) * 2, jnp.zeros((2, 8)), x.transpose(1, 0, 2),
                                       reverse=True)[1],
        "over weights": lambda x: lax.scan(lambda c, w: (jnp.tanh(c @ w), c.mean()), x, jnp.stack([W, W * 0.5])),
        "counted": lambda x: lax.fori_loop(0, 3, lambda i, a: a.at[:, i].set(a[:, i] * 2 + i), x),
        "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1])), (0, x))[1],
        "map": lambda x: lax.map(lambda row: nn.softmax(row @ W), x),
        "searched": lambda x: jnp.searchsorted(jnp.linspace(-2, 2, 9), x[0]),
    }, jnp.asarray(X))


def test_what_a_loop_writes_is_put_side_by_side():
    graph = load_graph(jax.export.export(jax.jit(lambda x: lax.map(lambda row: row @ W, x)))(X))
    assert not {"slice_update"} & {node.op for node in simplify(graph).nodes}


def test_branches_are_computed_both_and_chosen():
    functions = {
        "two": lambda x: lax.cond(x[0, 0, 0] > 0, lambda a: a @ W, lambda a: nn.relu(a @ W) * 2, x),
        "three": lambda x: lax.switch(jnp.argmax(x[0, 0, :3]), [lambda a: a, lambda a: a * 2, lambda a: -a], x),
    }
    for sign in (1, -1):
        hold(functions, jnp.asarray(sign * X))


def test_recurrent_layers_of_flax():
    import flax.linen as flax

    class Recurrent(flax.Module):
        @flax.compact
        def __call__(self, x):
            both = flax.Bidirectional(flax.RNN(flax.LSTMCell(4)), flax.RNN(flax.LSTMCell(4)))(x)
            return flax.RNN(flax.LSTMCell(8))(x), flax.RNN(flax.GRUCell(8))(x), both

    network = Recurrent()
    weights = network.init(jax.random.key(0), X)
    hold({"layers": lambda x: network.apply(weights, x)}, X)


def test_lookups():
    hold({
        "along an axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, -1), -1),
        "largest": lambda x: jnp.take_along_axis(x, jnp.argmax(x, -1, keepdims=True), -1),
        "pairs": lambda x: x[jnp.arange(2)[:, None], jnp.array([[0, 1], [2, 3]])],
        "diagonal": lambda x: jnp.diagonal(x, axis1=1, axis2=2), "patches": lambda x: lax.conv_general_dilated_patches(
            x[..., None], (3, 3), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        "known": lambda x: x[0, 0] + jnp.diagonal(jnp.arange(64.0).reshape(8, 8) / 64),
    }, jnp.asarray(X))


def test_scattering():
    hold({
        "sums": lambda x: jax.ops.segment_sum(x[0], IDS, 3), "largest": lambda x: jax.ops.segment_max(x[0], IDS, 3),
        "smallest": lambda x: jax.ops.segment_min(x[0], IDS, 3),
        "products": lambda x: jnp.ones((3, 8)).at[IDS].multiply(x[0]),
        "written": lambda x: x.at[:, jnp.array([0, 3])].set(0.5), "column": lambda x: x.at[:, :, 2].add(1.0),
        "pairs": lambda x: jnp.zeros((4, 4)).at[jnp.array([0, 1, 1]), jnp.array([2, 3, 3])].add(x[0, 0, :3]),
        "outside": lambda x: x[0].at[jnp.array([1, 9])].set(x[1, :2], mode="drop"),
    }, jnp.asarray(X))
    hold({"counts": lambda ids: jnp.bincount(ids, length=4),
          "sums": lambda ids: jax.ops.segment_sum(jnp.arange(48.0).reshape(6, 8) / 48, ids, 3)},
         jnp.asarray(IDS.astype(np.int32)))


def test_functions_and_running_extremes():
    hold({
        "angle": lambda x: jnp.arctan2(x, x[:, ::-1]), "arc cosine": lambda x: jnp.arccos(jnp.tanh(x)),
        "cube root": jnp.cbrt, "inverse of erf": lambda x: jax.scipy.special.erfinv(jnp.tanh(x) * 0.9),
        "halves away": lambda x: lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO), "product": lambda x: x.prod(-1),
        "running": lambda x: (lax.cumprod(x, 1), lax.cummax(x, 1), lax.cummin(x, 2), lax.cummax(x, 1, reverse=True)),
        "pairwise": lambda x: lax.associative_scan(jnp.add, x, axis=1), "edges": lambda x: jnp.pad(
            x, ((0, 0), (0, 0), (1, 1)), mode="edge"), "first true": lambda x: jnp.argmax(x > 0.3, -1),
        "noise": lambda x: x + jax.random.normal(jax.random.key(0), x.shape), "spread": lambda x: lax.pad(
            x, 0.5, ((0, 0, 0), (1, -1, 2), (0, 0, 1))), "known spread": lambda x: x[0, 0, :5] + lax.pad(
            jnp.arange(3.0), 0.5, ((0, 0, 1),)), "truth": lambda x: (x > 0) == (x < 0.5),
    }, jnp.asarray(X))
    positive = jnp.abs(jnp.asarray(X)) + 0.1
    hold({"gamma": jax.scipy.special.gammaln, "its slope": jax.scipy.special.digamma, "Bessel": lambda x: (
        jax.scipy.special.i0e(x), jax.scipy.special.i1e(-x)), "density": lambda x: jax.scipy.stats.beta.logpdf(
            x / 8, 2.0, 3.5), "small": lambda x: (jnp.log1p(x * 1e-3), jnp.expm1(-x * 1e-3))}, positive)
    hold({"quotients": lambda i: (i // 3, i % 3, lax.div(i, jnp.int32(3))), "bits": lambda i: (
        i << 1, i >> 1, i & 3, i | 9, i ^ 5, ~i, ~i.astype(jnp.uint8))}, jnp.arange(-5, 7, dtype=jnp.int32))


def test_several_tensors_in_the_order_of_some():
    ties = jnp.asarray(DRAW.integers(0, 3, (2, 12)).astype(np.int32))
    hold({"by two": lambda i: jnp.lexsort((i[:, ::-1], i)), "by one": lambda i: lax.sort_key_val(
        i, jnp.cos(i * 0.5), 1), "descending": lambda i: lax.sort((-i, i * 2, i + 1), dimension=0, num_keys=2),
        "of truth": lambda i: (jnp.sort(i > 1), jnp.argsort(i > 1))}, ties)
