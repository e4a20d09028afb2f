"""Dimensions a PyTorch program leaves open, and buffers and inputs that it writes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from support.needs import library
from support.torch_programs import exported, image

import openane as ane
from openane.errors import AneError
from openane.ops.evaluate import evaluate

torch = library("torch")
Dim = torch.export.Dim


class Pair(torch.nn.Module):
    """Two inputs that share their batch."""

    def forward(self, x, y):
        return torch.nn.functional.interpolate(x, scale_factor=2).flatten(1).sum(-1, keepdim=True) + y.reshape(
            x.shape[0], -1)


@pytest.fixture(scope="module")
def open_program():
    batch = Dim("batch", max=16)
    shapes = {"x": {0: batch, 2: Dim("height"), 3: Dim("width")}, "y": {0: batch}}
    return torch.export.export(Pair(), (image(2, 3, 8, 8), image(2, 2, 2)), dynamic_shapes=shapes, strict=False)


@pytest.mark.parametrize("batch", [1, 4])
def test_the_shape_of_one_input_fixes_what_others_share(open_program, batch) -> None:
    x, y = image(batch, 3, 6, 10), image(batch, 2, 2)
    graph = ane.load_graph(open_program, shapes={"x": tuple(x.shape)})
    assert [(value.name, value.shape) for value in graph.inputs] == [("x", (batch, 3, 6, 10)), ("y", (batch, 2, 2))]
    [found] = evaluate(graph, {"x": x.numpy(), "y": y.numpy()}).values()
    np.testing.assert_allclose(found, Pair()(x, y).numpy(), rtol=1e-2, atol=0.2)


@pytest.mark.parametrize(("shapes", "said"), [
    (None, "give its shape.*--shape x="), ({"y": (2, 2, 2)}, "give its shape"),
    ({"x": (4, 3, 6, 6), "y": (5, 2, 2)}, "is 4 elsewhere, found 5"), ({"x": (40, 3, 6, 6)}, "to 16.*found 40"),
    ({"x": (2, 4, 6, 6)}, r"which makes \[2, 3, 6, 6\]"), ({"x": (2, 3, 6)}, "the program states"),
    ({"x": (2, 3, 6, 6), "z": (1,)}, "for input 'z'")])
def test_shapes_that_do_not_fit(open_program, shapes, said) -> None:
    with pytest.raises(AneError, match=f"(?s){said}"):
        ane.load_graph(open_program, shapes=shapes)


class Kept(torch.nn.Module):
    """A buffer of zeros, one of other numbers, and a count of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 4))
        self.register_buffer("gain", torch.full((1, 4), 2.0))
        self.register_buffer("runs", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.mean.mul_(0.5).add_(x)
        self.gain.add_(1)
        self.runs.add_(1)
        return self.mean * self.gain + self.runs


def test_buffers_that_are_written_are_states() -> None:
    net = Kept()
    model = ane.compile(ane.load_graph(exported(copy.deepcopy(net), image(1, 4))))
    with ane.open_device("simulator") as device:
        loaded = device.load(model)
        for run in range(3):
            x = image(1, 4) + run
            [found] = loaded.run({"x": x.numpy()}).values()
            np.testing.assert_allclose(found, net(x).numpy(), rtol=1e-2, atol=1e-2)


def test_an_input_that_is_written_is_an_output_too() -> None:
    class Written(torch.nn.Module):
        def forward(self, x):
            return x.relu_() + 1

    x = image(1, 4)
    graph = ane.load_graph(exported(Written(), x.clone()))
    found = evaluate(graph, {"x": x.numpy()})
    np.testing.assert_allclose(next(iter(found.values())), x.relu() + 1, rtol=1e-2)
    np.testing.assert_allclose(found["x_written"], x.relu(), rtol=1e-2)
