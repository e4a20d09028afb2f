"""openane.tinygrad.to_engine: functions of tinygrad tensors on the simulator give tinygrad's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.needs import library

from openane.errors import GraphError, UnsupportedError

tinygrad = library("tinygrad")
pytestmark = [pytest.mark.needs("tinygrad"), pytest.mark.filterwarnings("ignore")]
DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def in_python(monkeypatch):
    """Computed in Python: tinygrad's other devices need a compiler."""
    from tinygrad.helpers import DEV

    with tinygrad.helpers.Context(DEV="PYTHON"):
        assert DEV
        yield


def drawn(*shape: int, scale: float = 1.0) -> Any:
    return tinygrad.Tensor((DRAW.standard_normal(shape) * scale).astype(np.float32), device="PYTHON")


W1, B1, W2 = (drawn(*shape, scale=0.2) for shape in ((32, 64), (64,), (64, 10)))
KERNEL, MATRICES = drawn(8, 3, 3, 3, scale=0.2), [drawn(32, 32, scale=0.2) for _ in range(4)]


def layers(x):
    return (x @ W1 + B1).relu() @ W2


def convolution(x):
    return x.conv2d(KERNEL, padding=1).relu().max_pool2d(2).mean((2, 3))


def softmax(x):
    return (x @ W1).softmax(-1)


def norm(x):
    return x.layernorm() * B1[:32] + 1


def attention(x):
    query, key, value = ((x @ each).reshape(2, 8, 4, 8).transpose(1, 2) for each in MATRICES[:3])
    return query.scaled_dot_product_attention(key, value).transpose(1, 2).reshape(2, 8, 32) @ MATRICES[3]


def activations(x):
    return x.gelu() + x.sigmoid(), x.tanh() - x.silu()


FUNCTIONS = {layers: (4, 32), convolution: (1, 3, 8, 8), softmax: (4, 32), norm: (4, 32), attention: (2, 8, 32),
             activations: (4, 16)}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_compute_what_tinygrad_does(function):
    import openane.tinygrad

    x = drawn(*FUNCTIONS[function])
    engine = openane.tinygrad.to_engine(function, x)
    found, wanted = engine(x), function(x)
    for mine, theirs in zip(*((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)), strict=True):
        theirs = theirs.numpy()
        np.testing.assert_allclose(mine.numpy(), theirs, atol=5e-3 * max(1.0, float(np.abs(theirs).max())))
    with pytest.raises(GraphError, match="compiled for shapes"):
        engine(drawn(7, 7))
    engine.close()


def test_what_is_not_read_is_refused_by_name():
    import openane.tinygrad

    with pytest.raises(UnsupportedError, match="tinygrad"):
        openane.tinygrad.to_engine(lambda x: (x.int() // 3).float(), drawn(4, 4))


@pytest.mark.parametrize("given", [(lambda x: x,), (3, 3), (lambda x: x, np.ones((2, 2), np.float32))],
                         ids=["no example", "no function", "an array"])
def test_what_is_no_function_of_tensors_is_told_what_to_give(given: Any) -> None:
    import openane.tinygrad

    with pytest.raises(UnsupportedError, match="to_engine\\(function, \\*example\\)"):
        openane.tinygrad.to_engine(*given)
