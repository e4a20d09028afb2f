"""as_strided of PyTorch programs: the same elements as PyTorch takes, whatever sizes, steps and order of memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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


Steps = tuple[Sequence[int], Sequence[int], int]
"""Size, stride and offset."""


def strided(shape: tuple[int, ...], order: tuple[int, ...], *steps: Steps) -> Graph:
    """The elements as_strided takes of a tensor whose dimensions lie in memory in `order`, held to PyTorch: a result
    each of one program, since exporting takes longest."""
    class Strided(torch.nn.Module):
        def forward(self, x):
            back = [order.index(axis) for axis in range(len(order))]
            laid = (x * 2).permute(order).contiguous().permute(back)
            return [torch.as_strided(laid, *each) + 1 for each in steps]

    x = torch.arange(prod(shape)).float().reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = ane.load_graph(torch.export.export(Strided(), (x,), strict=False))
    found = evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()
    for ours, theirs, each in zip(found, Strided()(x), steps, strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy(), str(each))
    return graph


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_views_windows_and_repeats(order) -> None:
    strided((2, 3, 4), order, ((4, 3, 2), (1, 4, 12), 0), ((3, 5), (5, 1), 3), ((5, 4), (3, 2), 1), ((6, 8), (3, 1), 0),
            ((2, 2, 3), (7, 0, 3), 1), ((2, 4, 1, 1), (4, 1, 9, 9), 0), ((1,), (1,), 23), ((2, 3), (1, 2), 18))


@st.composite
def some_steps(draw: st.DrawFn) -> Steps:
    """What as_strided may take of 60 elements."""
    rank = draw(st.integers(1, 4))
    size = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    stride = draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank))
    span = sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    assume(span < 60)
    return size, stride, draw(st.integers(0, 59 - span))


@settings(max_examples=5)
@given(st.lists(some_steps(), min_size=4, max_size=4))
def test_any_steps(steps: list[Steps]) -> None:
    strided((60,), (0,), *steps)


def test_a_dimension_of_many_windows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"as_strided.*whose elements overlap.*limit 64, found 90"):
        strided((100,), (0,), ([90, 9], [1, 1], 0))
