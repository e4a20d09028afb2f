"""Constants are known again by the tag their arrays carry: copies of them are still written in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from openane.compiler import Model, compile
from openane.compiler.lower.allocation import Allocation
from openane.compiler.lower.repeats import kept
from openane.compiler.patch_model import in_place, recompiled, rewritten
from openane.compiler.recipes import constant_product, neural_ops
from openane.graph import Graph
from openane.ops.build import GraphBuilder


@pytest.fixture(autouse=True)
def lowered_anew() -> Iterator[None]:
    """Nothing is lowered as it was with other recipes, nor later as with those of a test here."""
    kept().clear()
    yield
    kept().clear()


def network() -> Graph:
    """Dense, zero-skipping, grouped and depthwise weights, both kinds of products, a norm by itself, rows."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()

    def drawn(name: str, *shape: int) -> Any:
        return builder.constant(rng.uniform(0.1, 1, shape).astype(np.float16), name)

    def conv(x: Any, name: str, taps: int, stride: int, groups: int) -> Any:
        return builder.single("conv", x=x, weight=drawn(name, 16, x.shape[1] // groups, taps, taps),
                              bias=drawn(f"{name}_bias", 16), strides=[stride, stride], pad_type="custom",
                              pad=[1, 1, 1, 1], groups=np.int32(groups))

    x = builder.input("x", "fp16", (1, 8, 12, 12))
    y = builder.single("concat", values=(x, builder.single("tanh", x=x)), axis=np.int32(1))
    norm = {part: drawn(part, 16) for part in ("mean", "variance", "gamma", "beta")}
    y = builder.single("tanh", x=builder.single("batch_norm", x=y, **norm))
    for name, taps, stride, groups in (("dense", 3, 1, 1), ("sparse", 3, 2, 1), ("grouped", 3, 1, 2),
                                       ("depthwise", 3, 1, 16)):
        y = builder.single("tanh", x=conv(y, name, taps, stride, groups))
    y = builder.single("reshape", x=y, shape=np.array([16, 36], np.int32))
    y = builder.single("tanh", x=builder.single("linear", x=y, weight=drawn("linear", 24, 36), bias=drawn("shift", 24)))
    y = builder.single("tanh", x=builder.single("matmul", x=y, y=drawn("right", 24, 40), transpose_x=False,
                                                transpose_y=False))
    y = builder.single("matmul", x=drawn("left", 8, 16), y=y, transpose_x=False, transpose_y=False)
    return builder.finish({"y": builder.single("add", x=y, y=drawn("table", *y.shape))})


def copied(function: Callable[..., Any], order: str) -> Callable[..., Any]:
    """The function given copies of its arrays, laid out in memory as `order` says."""
    def with_copies(*given: Any, **named: Any) -> Any:
        arrays = [each.copy(order) if isinstance(each, np.ndarray) else each for each in given]
        return function(*arrays, **named)
    return with_copies


def copy_before_packing(patch: pytest.MonkeyPatch, order: str) -> None:
    """Every recipe that stores constants copies them first."""
    for module, name in ((neural_ops, "pack_dense"), (neural_ops, "pack_sparse"), (constant_product, "pack_dense")):
        patch.setattr(module, name, copied(getattr(module, name), order))
    patch.setattr(Allocation, "constant", copied(Allocation.constant, order))


def routes(model: Model) -> list[tuple[Any, ...]]:
    """Which elements of which constants go where, whatever the strides by which that is said."""
    assert model.patchable is not None
    found = model.patchable.routes
    numbers = {name: np.arange(np.prod(constant.shape)) for name, constant in found.constants.items()}
    return [(route.sources, route.steps, piece.program, piece.offset, piece.form,
             None if route.weight is None else piece.weights.of(numbers[route.weight]).tolist(), piece.bias is None)
            for route in found.routes for piece in route.pieces]


@pytest.mark.parametrize("order", ["C", "F", "K"])
def test_copies_before_packing_change_no_route(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    plain = compile(network())
    with monkeypatch.context() as patch:
        copy_before_packing(patch, order)
        copying = compile(network())
    assert copying.programs == plain.programs
    assert routes(copying) == routes(plain)
    assert plain.patchable is not None
    assert copying.patchable is not None
    assert copying.patchable.routes.complete == plain.patchable.routes.complete
    names = [value.name for node in plain.graph.nodes for value in node.values()
             if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" and value.data.size > 1]
    assert set(names) <= plain.patchable.routes.complete


def test_patching_after_copies_gives_the_bytes_of_recompiling(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_before_packing(monkeypatch, "C")
    model, rng = compile(network()), np.random.default_rng(1)
    new = {value.name: rng.uniform(0.1, 1, value.shape).astype(np.float16) for node in model.graph.nodes
           for value in node.values() if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f"
           and value.data.size > 1}
    assert not in_place(model, new)
    patched = rewritten(model, new)
    assert patched is not None
    assert patched.model.programs == recompiled(model, new).model.programs
    assert patched.model.programs != model.programs


def test_what_a_recipe_changes_has_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is written over, and numbers computed from a constant, are not the constant's elements."""
    store = neural_ops.pack_dense

    def doubled(form: Any, weights: np.ndarray, bias: np.ndarray | None, *more: Any) -> Any:
        other = weights.copy()
        other *= 2
        return store(form, other, None if bias is None else bias + 1, *more)

    monkeypatch.setattr(neural_ops, "pack_dense", doubled)
    model = compile(network())
    assert model.patchable is not None
    complete = model.patchable.routes.complete
    assert not complete & {"dense", "dense_bias", "grouped", "depthwise", "gamma"}
    assert complete >= {"sparse", "right", "table"}
