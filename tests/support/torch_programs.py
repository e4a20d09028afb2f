"""Programs of torch.export in tests: functions as modules, exported, and held to what PyTorch computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.needs import library

import openane as ane
from openane.ops.evaluate import evaluate

torch = library("torch")


def exported(module: Any, *inputs: Any) -> Any:
    """A module as torch.export gives it; PyTorch warns about its own ways while it exports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(module.eval(), inputs)


def module(function: Callable[..., Any]) -> Any:
    """A module that computes `function`."""
    class Function(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)
    return Function()


def image(*shape: int) -> Any:
    """Normal numbers that fp16 holds."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*(shape or (1, 4, 8, 8)), generator=generator).half().float()


def hold(net: Any, *inputs: Any, tolerance: float = 1e-2, names: Sequence[str] = ()) -> ane.Graph:
    """The imported graph computes what PyTorch computes; `names` say what each result is."""
    torch.manual_seed(0)
    graph = ane.load_graph(exported(net, *inputs))
    wanted = torch.utils._pytree.tree_leaves(net(*inputs))
    feeds = {value.name: given.numpy() for value, given in zip(graph.inputs, inputs, strict=True)}
    found = evaluate(graph, feeds)
    assert len(found) == len(wanted)
    for name, ours, theirs in zip(names or list(found), found.values(), wanted, strict=True):
        expected = theirs.detach().numpy()
        assert ours.shape == expected.shape, name
        assert np.allclose(ours.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance), name
    return graph


def hold_all(functions: dict[str, Callable[..., Any]], *inputs: Any, tolerance: float = 1e-2) -> ane.Graph:
    """As `hold`, the first result of each function in one program: exporting takes longer than all of the rest."""
    leaves = torch.utils._pytree.tree_leaves
    return hold(module(lambda *given: [leaves(each(*given))[0] for each in functions.values()]), *inputs,
                tolerance=tolerance, names=list(functions))
