"""Positions in PyTorch programs: lists of indices, scattering and writing in place, held to PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.needs import library
from support.torch_programs import exported, hold, hold_all, image, module

import openane as ane

torch = library("torch")
functional = torch.nn.functional


def written(assign: Callable[[Any, Any], None]) -> Callable[[Any], Any]:
    """x after something was assigned to parts of it."""
    def function(x: Any) -> Any:
        result = x.clone()
        assign(result, x)
        return result
    return function


def _parts(y: Any, x: Any) -> None:
    y[:, 1:3] = x[:, 0:2] * 2
    y[:, :, ::2] = 0.0
    y[0, 1] = 5


def _where(y: Any, x: Any) -> None:
    y[x > 1] = 0.5


def _along(x: Any, index: Any, source: Any, axis: int = -1) -> Any:
    return torch.zeros_like(x).scatter(axis, index, source)


def _joined(x: Any) -> Any:
    """Parts written over a whole that held the lowest numbers."""
    whole = torch.full((2, 4, 6, 9), -1e9)
    whole[..., 2:7] = x[..., 2:7]
    whole[:, 1] = x[:, 1, :, :1]
    return whole.softmax(-1)


def _largest(x: Any) -> Any:
    index = torch.tensor([0, 2, 2, 1, 0, 2, 1, 1]).expand(x.shape)
    return torch.full((2, 4, 6, 3), -1e9).scatter_reduce(-1, index, x, "amax")


KNOWN: dict[str, Callable[..., Any]] = {
    "broadcast lists": lambda x: x[:, torch.tensor([[0], [2]]), torch.tensor([1, 5, 3])],
    "lists apart": lambda x: x[torch.tensor([0, 1, 1]), :, torch.tensor([1, 5, 3])],
    "every element in order": lambda x: x[torch.arange(2).view(2, 1), torch.arange(4)] * 2,
    "from the end": lambda x: x[:, torch.tensor([-1, 0])],
    "put": lambda x: x.index_put((torch.tensor([1]), torch.tensor([2])), torch.zeros(6, 8)),
    "put twice": lambda x: x.index_put((torch.tensor([1, 1, 0]),), x[:1] * 2, accumulate=True),
    "assigned": written(_parts), "assigned where": written(_where),
    "lowest numbers assigned": lambda x: written(lambda y, x: y[..., 3:5].fill_(-1e9))(x).softmax(-1),
    "lowest numbers written over": _joined,
    "lowest numbers before the largest": _largest,
    "index_add": lambda x: x.index_add(1, torch.tensor([0, 2]), x[:, :2]),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([3, 1]), x[:, :2]),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([3, 1]), 0.5),
    "select_scatter": lambda x: x.select_scatter(x[:, 1] * 2, 1, 2),
    "slice_scatter": lambda x: x.slice_scatter(x[..., :3], -1, 1, 7, 2),
}
COMPUTED: dict[str, Callable[..., Any]] = {
    "number scattered": lambda x: x.scatter(-1, x.topk(2)[1], 0.5),
    "scattered": lambda x: _along(x, *x.topk(2)[::-1]),
    "scattered over channels": lambda x: _along(x, *x.topk(2, 1)[::-1], 1),
    "added": lambda x: x.scatter_add(-1, x.topk(2)[1], x.topk(2)[0]),
    "one hot": lambda x: functional.one_hot(x.argmax(-1), 8).float() * x,
}


def test_known_positions() -> None:
    model = ane.compile(hold_all(KNOWN, image(2, 4, 6, 8)), allow_host=False)
    assert not model.host_operations


def test_positions_that_the_engine_computed_are_written_by_it() -> None:
    model = ane.compile(hold_all(COMPUTED, image(2, 4, 6, 8)), allow_host=False)
    assert not model.host_operations


def test_rows_of_a_cache_are_written_at_positions_that_are_given() -> None:
    def write(cache: Any, places: Any, rows: Any) -> Any:
        cache = cache.clone()
        cache[:, :, places] = rows
        return cache

    for places in ([3], [3, 5, 4]):
        hold(module(write), image(1, 2, 16, 8), torch.tensor(places), image(1, 2, len(places), 8) + 1)


def test_one_element_of_every_row_at_a_computed_position() -> None:
    hold(module(lambda x: x[torch.arange(2), x.sum((2, 3)).argmax(-1)]), image(2, 4, 6, 8))
    hold(module(lambda x: torch.take_along_dim(x, x.argsort(-1), -1)), image(2, 4, 6, 8))


def test_the_host_keeps_what_is_computed_of_its_integers() -> None:
    """(ids + 1) * 977 is beyond what fp16 holds, its remainder is not: the engine may not be handed the product."""
    net = module(lambda ids, table: table[(ids + 1) * 977 % 64])
    ids, table = torch.arange(100, 116), image(64, 8)
    model = ane.compile(hold(net, ids, table))
    feeds = dict(zip((port.name for port in model.inputs), (ids.numpy(), table.numpy()), strict=True))
    [found] = ane.run(model, feeds).values()
    np.testing.assert_array_equal(found, net(ids, table).numpy())


@pytest.mark.parametrize(("function", "match"), [
    (lambda x: x[x > 0], "cannot depend on the data"),
    (lambda x: x.index_put((torch.zeros(20, dtype=torch.int64),), x[:1], accumulate=True), "at most 16 times"),
])
def test_refusals(function: Callable[..., Any], match: str) -> None:
    with pytest.raises(ane.UnsupportedError, match=match):
        ane.load_graph(exported(module(function), image(2, 4, 6, 8)))


def test_what_is_taken_at_positions_of_the_largest_stays_on_the_engine() -> None:
    for axis in (-1, 1):
        graph = hold(module(lambda x, axis=axis: (x * 0.5).gather(axis, x.topk(2, axis)[1])), image(2, 4, 6, 8))
        assert not ane.compile(graph, allow_host=False).host_operations
