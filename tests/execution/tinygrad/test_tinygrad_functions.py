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

    with pytest.raises(UnsupportedError, match="tinygrad BITCAST"):
        openane.tinygrad.to_engine(lambda x: x.bitcast(tinygrad.dtypes.int32), drawn(4, 4))


HALVES = tinygrad.Tensor((np.arange(24).reshape(2, 3, 4) % 9 - 4).astype(np.float32) / 2 + 0.125, device="PYTHON")
WHOLE: dict[str, Any] = {
    "joined": lambda x: x.cat(x * 2, dim=1), "stacked": lambda x: tinygrad.Tensor.stack(x, x + 1, dim=1),
    "floor": lambda x: x.floor(), "ceil": lambda x: x.ceil(), "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "sorted": lambda x: (x + tinygrad.Tensor.arange(4) / 8).sort()[0], "argmax": lambda x: x.argmax(-1),
    "triangle": lambda x: x.tril(), "diagonal": lambda x: x[0, 0].diag(), "reflected": lambda x: x.pad((1, 2, 0, 0),
                                                                                                       mode="reflect"),
    "picked": lambda x: x[:, [2, 0], 1:3], "one hot": lambda x: (x > 0).int().one_hot(2),
    "truth": lambda x: (x > 0).any(-1) | (x > -1).all(-1), "infinite": lambda x: x.isinf(),
    "quotients": lambda x: (x * 4).int() // 3, "remainders": lambda x: (x * 4).int() % 3,
    "shifted": lambda x: (x * 4).int() << 1, "left of it": lambda x: x % 0.5, "all": lambda x: x.sum(),
    "largest integer": lambda x: (x * 4).int().max(1),
}
CLOSE: dict[str, Any] = {
    "product": lambda x: (x / 2).prod(-1), "running": lambda x: x.logcumsumexp(-1), "angle": lambda x: (x * 0.7).cos(),
    "causal": lambda x: x.scaled_dot_product_attention(x, x, is_causal=True),
    "resized": lambda x: x.unsqueeze(1).interpolate((5, 7)),
    "upsampled": lambda x: x.unsqueeze(1).conv_transpose2d(tinygrad.Tensor.ones(1, 2, 3, 3, device="PYTHON") / 8,
                                                           stride=2, output_padding=1),
}


@pytest.mark.parametrize("name", [*WHOLE, *CLOSE])
def test_what_tinygrad_writes_of_shapes_truth_and_integers_is_computed(name: str) -> None:
    """Each was refused, or met an error of Python's."""
    import openane.tinygrad

    function = WHOLE.get(name) or CLOSE[name]
    found = openane.tinygrad.to_engine(function, HALVES)(HALVES)
    wanted = function(HALVES).numpy()
    assert found.numpy().dtype == wanted.dtype
    assert found.device == "PYTHON"
    np.testing.assert_allclose(found.numpy(), wanted, atol=4e-3 if name in CLOSE else 0)


@pytest.mark.parametrize("given", [(lambda x: x,), (3, 3), (lambda x: x, np.ones((2, 2), np.float32))],
                         ids=["no example", "no function", "an array"])
def test_what_is_no_function_of_tensors_is_told_what_to_give(given: Any) -> None:
    import openane.tinygrad

    with pytest.raises(UnsupportedError, match="to_engine\\(function, \\*example\\)"):
        openane.tinygrad.to_engine(*given)
