"""Which constants of a model from a file are trained: told by what they are used for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.training.networks.choice import candidates, chosen

RNG = np.random.default_rng(0)


class Model(GraphBuilder):
    """A model whose constants have the names they are given."""

    def __init__(self) -> None:
        super().__init__("m")
        self.x = self.input("x", "fp16", (4, 8))

    def array(self, name: str, *shape: int) -> Value:
        """A constant drawn at random."""
        return self.constant(RNG.standard_normal(shape).astype(np.float16), name)

    def linear(self, name: str, x: Value) -> Value:
        """A product with a weight, and a bias as a sum of its own, in the order of some exporters."""
        product = self.single("matmul", x=x, y=self.array(f"{name}_weight", 8, 8))
        return self.single("add", x=self.array(f"{name}_bias", 8), y=product)


def attention(m: Model) -> Value:
    """A mask is added to logits, which are a product of two products; angles turn the queries."""
    query = m.single("mul", x=m.linear("q", m.x), y=m.array("cosines", 4, 8))
    logits = m.single("matmul", x=query, y=m.linear("k", m.x), transpose_y=True)
    scaled = m.single("mul", x=logits, y=np.float16(0.35))
    shares = m.single("softmax", x=m.single("add", x=scaled, y=m.array("mask", 4, 4)), axis=-1)
    return m.single("matmul", x=shares, y=m.linear("v", m.x))


def normalisations(m: Model) -> Value:
    """Gains and offsets as operands, and as operations of their own."""
    normed = m.single("layer_norm", x=m.linear("l", m.x), axes=[1], gamma=m.array("gamma", 8), beta=m.array("beta", 8),
                      epsilon=1e-3)
    square = m.single("reduce_mean", x=m.single("mul", x=normed, y=normed), axes=[1], keep_dims=True)
    scaled = m.single("mul", x=normed, y=m.single("rsqrt", x=square))
    return m.single("add", x=m.single("mul", x=scaled, y=m.array("gain", 8)), y=m.array("offset", 8))


def standardised(m: Model) -> Value:
    """An input less its mean over its deviation, then turned about by a matrix of ones and zeros."""
    centred = m.single("sub", x=m.x, y=m.array("mean", 8))
    scaled = m.single("mul", x=centred, y=m.array("deviation", 8))
    turn = m.constant(np.roll(np.eye(8), 1, 0).astype(np.float16), "turn")
    return m.linear("l", m.single("matmul", x=scaled, y=turn))


def convolutions(m: Model) -> Value:
    """A kernel with its bias, an offset by channel, and the mean and variance of a normalisation."""
    image = m.single("reshape", x=m.x, shape=[1, 2, 4, 4])
    made = m.single("conv", x=image, weight=m.array("kernel", 3, 2, 1, 1), bias=m.array("bias", 3), pad_type="valid")
    variance = m.constant(np.ones(3, np.float16), "variance")
    made = m.single("batch_norm", x=made, mean=m.array("mean", 3), variance=variance, gamma=m.array("gamma", 3),
                    epsilon=1e-3)
    return m.single("add", x=made, y=m.array("offset", 3, 1, 1))


def fresh(m: Model) -> Value:
    """A last matrix of zeros, as heads and adapters begin."""
    return m.single("matmul", x=m.linear("l", m.x), y=m.constant(np.zeros((8, 8), np.float16), "head"))


@pytest.mark.parametrize(("build", "fixed"), [
    (attention, {"cosines", "mask"}), (normalisations, set()), (standardised, {"mean", "deviation", "turn"}),
    (convolutions, {"mean", "variance"}), (fresh, set())])
def test_weights_are_told_by_their_use(build: Callable[[Model], Value], fixed: set[str]) -> None:
    model = Model()
    graph: Graph = model.finish({"y": build(model)})
    names = set(candidates(graph))
    assert fixed <= names
    assert set(chosen(graph)) == names - fixed
