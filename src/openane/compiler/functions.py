"""Several functions in one model: `prefill` and `decode` of a language model, say. They share states by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openane.chips import DEFAULT_TARGET
from openane.compiler.api import compile
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.precision import PrecisionMode
from openane.compiler.saved_model import Model
from openane.errors import GraphError
from openane.graph import Graph
from openane.graph.given import require_graph


def compile_functions(graphs: Sequence[Graph], target: str = DEFAULT_TARGET, allow_host: AllowHost = LOOKUPS,
                      cache: bool | str | Path = False, precision: str = PrecisionMode.SAFE) -> Model:
    """One model of several graphs, each a function called as its graph is; the first is what runs when none is named.

    A state that several functions have is one buffer. GraphError when two functions share a name, or have states of one
    name and different types; otherwise as `compile`.
    """
    for graph in graphs:
        require_graph(graph)
    names = [graph.name for graph in graphs]
    if not names or len(set(names)) < len(names):
        raise GraphError(f"functions need a name of their own; these are called {', '.join(names) or 'nothing'}")
    models = [compile(graph, target, allow_host, cache=cache, precision=precision) for graph in graphs]
    _check_states(models)
    return models[0].with_functions(models[1:])


def _check_states(models: Sequence[Model]) -> None:
    seen: dict[str, tuple[str, Model]] = {}
    for model in models:
        for state in model.states:
            kind = f"{state.port.dtype} {list(state.port.shape)}"
            known, owner = seen.setdefault(state.name, (kind, model))
            if known != kind:
                raise GraphError(f"state {state.name!r} is {known} in function {owner.name!r} and {kind} in "
                                 f"{model.name!r}")
