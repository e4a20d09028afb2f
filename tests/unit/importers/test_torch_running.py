"""PyTorch's running products and extremes, medians, norms of any order, histograms, scatter_reduce, small matrices and
angles, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from support.needs import library
from support.torch_programs import exported, hold, hold_all, image, module

import openane as ane

torch = library("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
linalg, functional = torch.linalg, torch.nn.functional
INDEX = torch.tensor([0, 2, 2, 1, 0])


def test_running_products_extremes_and_medians():
    hold_all({
        "products": lambda x: x.cumprod(1), "largest": lambda x: x.cummax(1), "smallest": lambda x: x.cummin(-1),
        "where largest": lambda x: x.cummax(2).indices, "where smallest": lambda x: x.cummin(1).indices,
        "product": lambda x: x.prod(-1), "of all": lambda x: x[0, 0, :4].prod(), "kept": lambda x: x.prod(1, True),
        "median": lambda x: x.median(-1), "of five": lambda x: x.median(1), "where": lambda x: x.median(1).indices,
        "of the whole": lambda x: x[0].median(), "third": lambda x: x.kthvalue(3, -1),
        "exponentials": lambda x: (x * 9).logcumsumexp(-1),
        "ties": lambda x: (x > 0).float().cummax(1).indices, "last but one": lambda x: x.kthvalue(7, -1, True),
    }, image(2, 5, 8))


def test_norms_of_any_order():
    hold_all({
        "3": lambda x: linalg.vector_norm(x, 3, -1), "half": lambda x: linalg.vector_norm(x, 0.5, 1),
        "4, two axes": lambda x: linalg.vector_norm(x, 4, (1, 2), keepdim=True),
        "beyond fp16": lambda x: linalg.vector_norm(x * 100, 3, -1) / 100,
        "how many": lambda x: linalg.vector_norm(x.round(), 0, -1),
        "of zeros": lambda x: linalg.vector_norm(x * 0, 3, -1), "largest": lambda x: x.norm(float("inf"), -1),
        "smallest": lambda x: linalg.vector_norm(x, -float("inf"), 1),
        **{f"distances {order}": lambda x, order=order: torch.cdist(x, x.flip(0) + 1, order)
           for order in (0.0, 0.5, 3.0, float("inf"))},
        "pairs of order 3": lambda x: functional.pdist(x[0], 3), "cubes beyond fp16": lambda x: torch.cdist(
            x * 100, x.flip(1) * 100, 3.0) / 100,
        "pairs": lambda x: functional.pdist(x[0]), "hypotenuse": lambda x: torch.hypot(x * 300, x * 400 + 1) / 100,
    }, image(2, 5, 8))


def test_places_and_counts():
    hold_all({
        "in a list": lambda x: torch.searchsorted(torch.linspace(-2, 2, 9), x),
        "behind equals": lambda x: torch.searchsorted(torch.linspace(-2, 2, 9), x.round(), right=True),
        "in lists of their own": lambda x: torch.searchsorted(x.sort(-1).values, x),
        "histogram": lambda x: torch.histc(x, 6, -2, 2), "edges": lambda x: torch.histc(x.round(), 4, -2, 2),
        "rounded": lambda x: torch.round(x, decimals=1), "rounded to tens": lambda x: torch.round(x * 50, decimals=-1),
    }, image(2, 5, 8), tolerance=2e-3)


@pytest.mark.parametrize("reduce", ["amax", "amin", "mean", "prod", "sum"])
def test_elements_at_one_position_are_reduced(reduce: str):
    index = INDEX.view(1, 5, 1).expand(2, 5, 8)
    start = torch.full((2, 4, 8), 0.5)
    functions: dict[str, Any] = {
        f"scattered, {itself}": lambda x, itself=itself: start.scatter_reduce(1, index, x, reduce, include_self=itself)
        for itself in (True, False)}
    functions["computed"] = lambda x: torch.zeros(2, 5, 8).scatter_reduce(2, x.argsort(-1), x, reduce)
    functions["part"] = lambda x: start.scatter_reduce(1, index[:, :3], x, reduce)
    if reduce != "sum":
        functions["rows"] = lambda x: start.index_reduce(1, INDEX, x, reduce)
    hold_all(functions, image(2, 5, 8))


def test_small_matrices_angles_and_layers_of_two_inputs():
    eye = 3 * torch.eye(3)
    hold_all({
        "determinant": lambda x: linalg.det(x[:, :3, :3]), "of two": lambda x: linalg.det(x[:, :2, :2]),
        "inverse": lambda x: linalg.inv(x[:, :3, :3] + eye), "of one": lambda x: linalg.inv(x[:, :1, :1] + 3),
        "solution": lambda x: linalg.solve(x[:, :3, :3] + eye, x[:, :3, 3:6]),
        "of a vector": lambda x: linalg.solve(x[:, :3, :3] + eye, x[:, :3, 4]),
        "from the right": lambda x: linalg.solve(x[:, :3, :3] + eye, x[:, 1:3, 3:6], left=False),
        "polar": lambda x: torch.view_as_real(torch.polar(x.abs(), x)),
        "angle": lambda x: torch.angle(torch.complex(x, x.flip(0))), "of real numbers": torch.angle,
        "quadrants": lambda x: torch.atan2(x, x.flip(0)), "on the axes": lambda x: torch.atan2(x.sign(), (x * 0)),
        "asinh": torch.asinh, "acosh": lambda x: torch.acosh(x.abs() + 1.1), "erfc": torch.erfc,
        "sign of another": lambda x: torch.copysign(x, x.flip(0)), "sign": lambda x: torch.copysign(x, -2.0),
    }, image(2, 5, 8))
    hold(torch.nn.Bilinear(8, 8, 3), image(2, 5, 8), image(2, 5, 8))


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: linalg.inv(x[:, :4, :4]), "at most 3 x 3"), (lambda x: linalg.svd(x)[1], "factorise the matrix"),
    (lambda x: linalg.cholesky(x[:, :5, :5]), "factorise the matrix"),
    (lambda x: torch.histc(x, 4), "intervals are constant"),
    (lambda x: x.round().mode(-1)[1], "leave the result unused"),
    (lambda x: functional.dropout(x, 0.5, True), "random numbers"),
    (lambda x: torch.multinomial(x[0].softmax(-1), 2), "random numbers"),
    (lambda x: linalg.vector_norm(x, -1, -1), "0 or more"),
    (lambda x: torch.searchsorted(x, x, sorter=x.argsort(-1)), "sorted already"),
])
def test_what_is_refused_says_what_helps(function, message):
    with pytest.raises(ane.UnsupportedError, match=message):
        ane.load_graph(exported(module(function), image(2, 5, 8)))
