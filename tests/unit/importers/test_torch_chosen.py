"""Rows of PyTorch programs that a mask chooses: worked on one by one, put back or summed, held to PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.needs import library
from support.torch_programs import exported, hold, hold_all, image, module

import openane as ane

torch = library("torch")
functional = torch.nn.functional


def assigned(change: Callable[[Any], Any], where: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """x with what `change` makes of its elements, or rows, at a mask."""
    def function(x: Any) -> Any:
        result, mask = x.clone(), where(x)
        result[mask] = change(result[mask])
        return result
    return function


def above(x: Any) -> Any:
    return x > 0.2


def rows(x: Any) -> Any:
    return x[..., 0] > 0.2


def _positions(x: Any) -> Any:
    first, second = torch.where(rows(x[0]))
    return torch.zeros_like(x[0]).index_put((first, second), x[0][first, second] * 2)


def _experts(x: Any) -> Any:
    """Tokens that a router gives to two of three experts, as mixtures are written."""
    tokens = x.reshape(-1, x.shape[-1])
    weight, chosen = tokens[:, :3].softmax(-1).topk(2, -1)
    result = torch.zeros_like(tokens)
    for expert in range(3):
        token, place = torch.where(chosen == expert)
        result.index_add_(0, token, (tokens[token] * (expert + 1)).tanh() * weight[token, place, None])
    return result.view_as(x)


def _two(x: Any) -> Any:
    return x[x > 0.2].sum() + x[x < -0.2].mean()


def _other(x: Any) -> Any:
    result = torch.zeros_like(x)
    result[x > 0.2] = (x * 2)[x > 0.2]
    return result


PUT_BACK: dict[str, Callable[..., Any]] = {
    "elements": assigned(lambda chosen: chosen * 0.5 + 1, above), "of another tensor, by an equal mask": _other,
    "a function that has no numbers elsewhere": assigned(torch.log, above),
    "by zero elsewhere": assigned(lambda chosen: 1 / chosen.clamp(min=0), above),
    "rows": assigned(lambda chosen: functional.layer_norm(functional.gelu(chosen @ torch.ones(8, 8)), [8]), rows),
    "softmax of each": assigned(lambda chosen: chosen.softmax(-1), rows),
    "shaped anew": assigned(lambda chosen: chosen.view(-1, 2, 4).flip(-1).flatten(1), rows),
    "at positions": _positions, "added": _experts,
}
REDUCED: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x[above(x)].sum(), "mean": lambda x: x[above(x)].mean(), "of rows": lambda x: x[rows(x)].sum(0),
    "mean of rows": lambda x: x[rows(x)].mean(0), "mean of all in rows": lambda x: x[rows(x)].mean((0, 1)),
    "largest": lambda x: x[rows(x)].amax(0), "smallest": lambda x: x[rows(x)].amin(0), "two masks": _two,
    "selected": lambda x: x.masked_select(above(x)).sum(),
    "loss": lambda x: -x[rows(x)].log_softmax(-1)[..., 1].mean(),
    "positions": lambda x: torch.argwhere(above(x)).float().mean(0),
}
KNOWN: dict[str, Callable[..., Any]] = {
    "first": lambda x: x[torch.tensor([True, False])].sum(1),
    "second": lambda x: x[:, torch.tensor([True, False, True, True])].flip(1),
}


@pytest.mark.parametrize("functions", [PUT_BACK, REDUCED, KNOWN], ids=["put back", "reduced", "known"])
def test_rows_that_a_mask_chooses(functions: dict[str, Callable[..., Any]]) -> None:
    model = ane.compile(hold_all(functions, image(2, 4, 6, 8)), allow_host=False)
    assert not model.host_operations


@pytest.mark.parametrize("function", [
    lambda x: x[rows(x)],
    lambda x: (x[rows(x)] @ x[rows(x)].transpose(0, 1)).sum(),
    lambda x: x[rows(x)].softmax(0).sum(),
    lambda x: x[rows(x)].cumsum(0).sum(0),
    lambda x: x[above(x)][::2].sum(),
    lambda x: (lambda chosen: chosen[chosen > 1].sum())(x[above(x)]),
    lambda x: x[:, x[0, :, 0, 0] > 0].sum(1),
], ids=["given", "rows with rows", "along rows", "running", "some", "a mask of chosen ones", "second axis"])
def test_what_needs_the_chosen_rows_alone_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ane.UnsupportedError, match="cannot depend on the data"):
        ane.load_graph(exported(module(function), image(2, 4, 6, 8)))


def test_whole_numbers_at_a_mask() -> None:
    def function(x: Any) -> Any:
        result = torch.arange(8).expand(x.shape).clone()
        result[x > 0] = 7
        return result

    hold(module(function), image(2, 4, 6, 8))
