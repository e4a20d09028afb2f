"""as_strided of PyTorch programs: the same elements as PyTorch takes, whatever sizes, steps and order of memory."""

from __future__ import annotations

import warnings
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.needs import library

import openane as ane
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.evaluate import evaluate

torch = library("torch")


def strided(shape: tuple[int, ...], order: tuple[int, ...], size: list[int], stride: list[int], offset: int) -> Graph:
    """The elements as_strided takes of a tensor whose dimensions lie in memory in `order`, held to PyTorch."""
    class Strided(torch.nn.Module):
        def forward(self, x):
            back = [order.index(axis) for axis in range(len(order))]
            laid = (x * 2).permute(order).contiguous().permute(back)
            return torch.as_strided(laid, size, stride, offset) + 1

    x = torch.arange(prod(shape)).float().reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = ane.load_graph(torch.export.export(Strided(), (x,), strict=False))
    [found] = evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()
    np.testing.assert_array_equal(found, Strided()(x).numpy())
    return graph


@pytest.mark.parametrize(("size", "stride", "offset"), [
    ((4, 3, 2), (1, 4, 12), 0), ((3, 5), (5, 1), 3), ((5, 4), (3, 2), 1), ((6, 8), (3, 1), 0),
    ((2, 2, 3), (7, 0, 3), 1), ((2, 4, 1, 1), (4, 1, 9, 9), 0), ((1,), (1,), 23), ((2, 3), (1, 2), 18)])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_views_windows_and_repeats(size, stride, offset, order) -> None:
    strided((2, 3, 4), order, size, stride, offset)


@settings(max_examples=20)
@given(st.data())
def test_any_steps(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    size = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    stride = data.draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank))
    span = sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    assume(span < 60)
    strided((60,), (0,), size, stride, data.draw(st.integers(0, 59 - span)))


def test_a_dimension_of_many_windows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"as_strided.*whose elements overlap.*limit 64, found 90"):
        strided((100,), (0,), [90, 9], [1, 1], 0)
