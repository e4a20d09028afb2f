"""Maxima that PyTorch puts back where they were found, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from support.needs import library
from support.torch_programs import exported, hold, image, module

import openane as ane

torch = library("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
functional = torch.nn.functional


def unpool(axes: int, *window: Any, size: Any = None, ties: bool = False) -> Any:
    """A module that pools, and puts other numbers where the maxima were; with ties half of what it pools are zeros."""
    def forward(x: Any) -> Any:
        x = x.relu() if ties else x
        y, places = getattr(functional, f"max_pool{axes}d")(x, *window, return_indices=True)
        return getattr(functional, f"max_unpool{axes}d")(2 * y + 0.25, places, *window,
                                                         output_size=x.shape[2:] if size == "own" else size)
    return module(forward)


@pytest.mark.parametrize(("net", "shape"), [
    (unpool(2, 2), (2, 3, 8, 12)), (unpool(2, 2, ties=True), (2, 3, 8, 12)), (unpool(2, 2, size="own"), (1, 3, 9, 13)),
    (unpool(2, 2, 2, 1, size="own", ties=True), (1, 4, 6, 8)), (unpool(2, (2, 3), (3, 4), size="own"), (1, 2, 10, 11)),
    (unpool(1, 2), (1, 3, 8)), (unpool(1, 3, ties=True), (2, 3, 9)), (unpool(3, 2, ties=True), (1, 3, 4, 4, 6)),
], ids=str)
def test_maxima_are_put_back_where_they_were(net: Any, shape: tuple[int, ...]) -> None:
    hold(net, image(*shape))


@pytest.mark.parametrize(("net", "shape", "said"), [
    (unpool(2, 3, 2, 1, size="own"), (1, 4, 6, 8), "must not overlap.*transposed convolution"),
    (unpool(2, 2), (1, 3, 9, 13), r"rows of another length.*\[9, 13\]"),
    (module(lambda x: functional.max_pool2d(x, 2, return_indices=True)), (1, 3, 8, 8), "to max_unpool alone"),
    (module(lambda x: functional.max_pool2d(x, 2, return_indices=True)[1] + 1), (1, 3, 8, 8), "to max_unpool alone"),
])
def test_what_cannot_be_put_back_is_refused(net: Any, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(ane.UnsupportedError, match="(?s)" + said):
        ane.load_graph(exported(net, image(*shape)))
