"""openane.jax.to_engine: JAX functions and flax models on the simulator give JAX's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.needs import library

from openane.errors import FormatError, UnsupportedError
from openane.importers import load_graph
from openane.passes.order import simplify

jax = library("jax")
pytestmark = [pytest.mark.needs("jax", "flax"), pytest.mark.filterwarnings("ignore")]
jnp, lax, nn = jax.numpy, jax.lax, jax.nn
DRAW = np.random.default_rng(0)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def drawn(*shape: int) -> Any:
    return (DRAW.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[:-1])))).astype(np.float32)


def given(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(np.float32)


W1, W2, B1 = drawn(32, 64), drawn(64, 10), drawn(64)
K1, K2, TABLE = drawn(3, 3, 3, 8), drawn(3, 3, 8, 16), given(100, 32)
Q, K, V, O, U, D = drawn(32, 32), drawn(32, 32), drawn(32, 32), drawn(32, 32), drawn(32, 64), drawn(64, 32)  # noqa: E741


def mlp(x):
    return nn.relu(x @ W1 + B1) @ W2


def convnet(x):
    x = nn.relu(lax.conv_general_dilated(x, K1, (1, 1), "SAME", dimension_numbers=LAYOUT))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = nn.relu(lax.conv_general_dilated(x, K2, (2, 2), "SAME", dimension_numbers=LAYOUT))
    return x.mean((1, 2)) @ W2[:16]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * (1 + B1[:32])


def block(x):
    """A transformer's, its attention masked."""
    batch, length, width = x.shape
    q, k, v = ((norm(x) @ w).reshape(batch, length, 4, 8) for w in (Q, K, V))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores, -1), v).reshape(batch, length, width)
    x = x + mixed @ O
    return x + nn.gelu(norm(x) @ U) @ D


def norm_and_gelu(x):
    return nn.gelu(norm(x), approximate=False)


def classifier(x):
    scores = x @ W2
    return {"share": nn.softmax(scores), "best": jnp.argmax(scores, -1)}


def embedding(ids):
    return nn.log_softmax(jnp.asarray(TABLE)[ids].mean(1) @ W1)


def gradient(x):
    return jax.grad(lambda x: jnp.mean(mlp(x) ** 2))(x)


FUNCTIONS = {
    mlp: given(4, 32), convnet: given(2, 16, 16, 3), block: given(2, 12, 32), norm_and_gelu: given(2, 16, 32),
    classifier: given(4, 64), embedding: DRAW.integers(-100, 100, (2, 7)).astype(np.int32), gradient: given(4, 32),
}


def close(found: Any, wanted: Any) -> None:
    """The same structure and types, and numbers within a part in two hundred of the largest."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, atol=5e-3 * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_compute_what_jax_does(function):
    import openane.jax

    example = FUNCTIONS[function]
    engine = openane.jax.to_engine(function, example)
    close(engine(example), function(example))


def test_norms_and_gelu_are_recognised():
    graph = load_graph(jax.export.export(jax.jit(norm_and_gelu))(FUNCTIONS[norm_and_gelu]))
    assert [node.op for node in simplify(graph).nodes] == ["layer_norm", "gelu"]


def test_a_flax_model_of_residual_blocks():
    import flax.linen as flax

    import openane.jax

    class Block(flax.Module):
        features: int
        stride: int = 1

        @flax.compact
        def __call__(self, x):
            y = flax.Conv(self.features, (3, 3), strides=self.stride, use_bias=False)(x)
            y = nn.relu(flax.BatchNorm(use_running_average=True)(y))
            y = flax.BatchNorm(use_running_average=True)(flax.Conv(self.features, (3, 3), use_bias=False)(y))
            return nn.relu(y + (x if x.shape == y.shape else flax.Conv(self.features, (1, 1), strides=self.stride)(x)))

    class Network(flax.Module):
        @flax.compact
        def __call__(self, x):
            x = flax.max_pool(nn.relu(flax.Conv(16, (7, 7), strides=2)(x)), (3, 3), strides=(2, 2), padding="SAME")
            x = flax.avg_pool(Block(32, 2)(Block(16)(x)), (2, 2), strides=(2, 2)).mean((1, 2))
            return flax.Dense(10)(flax.LayerNorm()(x))

    x, network = given(1, 32, 32, 3), Network()
    weights = jax.jit(network.init)(jax.random.key(0), x)
    engine = openane.jax.to_engine(lambda x: network.apply(weights, x), x)
    close(engine(x), jax.jit(network.apply)(weights, x))
    kinds = [node.op for node in simplify(load_graph(jax.export.export(jax.jit(
        lambda x: network.apply(weights, x)))(x))).nodes]
    assert kinds.count("conv") == 6
    assert kinds.count("transpose") == 1  # channels are moved once, and norms of batches lie in convolutions


def test_a_flax_nnx_transformer_block():
    from flax import nnx

    import openane.jax

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
            self.before, self.between = nnx.LayerNorm(32, rngs=rngs), nnx.RMSNorm(32, rngs=rngs)
            self.up, self.down = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)

        def __call__(self, x):
            x = x + self.attention(self.before(x))
            return x + self.down(nnx.gelu(self.up(self.between(x))))

    network = Block(nnx.Rngs(0))
    network.eval()
    x = given(2, 8, 32)
    close(openane.jax.to_engine(lambda x: network(x), x)(x), jax.jit(lambda x: network(x))(x))


def test_trees_of_arguments_other_shapes_and_unused_ones():
    import openane.jax

    def function(pair, unused):
        return [pair["a"] + 1, (pair["b"] * 2,)]

    engine = openane.jax.to_engine(function)
    for count in (2, 3):
        arguments = {"a": given(count, 4), "b": given(5)}, given(1)
        close(engine(*arguments), jax.tree.map(jnp.asarray, function(*arguments)))
    engine.close()
    close(engine(*arguments), jax.tree.map(jnp.asarray, function(*arguments)))


def test_bytecode_is_the_text(tmp_path):
    exported = jax.export.export(jax.jit(block))(FUNCTIONS[block])
    text, path = load_graph(exported), tmp_path / "block.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    read = load_graph(path)
    assert [node.op for node in read.nodes] == [node.op for node in text.nodes]
    assert ", test_jax_functions.py:" in read.nodes[0].source
    path.write_bytes(exported.mlir_module_serialized[:500])
    with pytest.raises(FormatError, match="bytecode cannot be read"):
        load_graph(path)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: lax.while_loop(lambda a: a.sum() < 9, lambda a: a * 2, x), "hint: lax.scan or lax.fori_loop"),
    (lambda x: x.at[jnp.argmax(x, 0)].max(1.0), "whole slices of axis 0 that are added"),
    (lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 1), "VALID"), "products of all elements up to each"),
    (lambda x: x @ x, "JAX cannot export it"),
    (lambda x: jnp.linalg.qr(x)[1], "StableHLO"),
])
def test_what_the_engine_does_not_take_is_refused(function, message):
    import openane.jax

    with pytest.raises(UnsupportedError, match=message):
        openane.jax.to_engine(function, given(4, 3))
