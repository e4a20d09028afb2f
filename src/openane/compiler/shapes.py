"""One model in several shapes: a function per shape, chosen by the inputs it is given when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from openane.chips import DEFAULT_TARGET
from openane.compiler.functions import compile_functions
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.precision import PrecisionMode
from openane.compiler.saved_model import Model
from openane.errors import GraphError
from openane.graph import Graph, Value
from openane.graph.given import require_graph

MASK = "attention_mask"
"""An input of this name says which positions are real: a model that has it takes padded inputs."""


def compile_shapes(graphs: Sequence[Graph], padding: Mapping[str, float] | None = None, target: str = DEFAULT_TARGET,
                   allow_host: AllowHost = LOOKUPS, cache: bool | str | Path = False,
                   precision: str = PrecisionMode.SAFE) -> Model:
    """One model of a graph in several shapes (`openane.importers.load_shapes` makes them), smallest first.

    Whoever runs it gives inputs of one of the shapes, and the function of that shape runs. Inputs that `padding` names
    may be smaller: they are filled up with its numbers at the end of their dimensions to the next shape that holds
    them, and dimensions of outputs that change along with these are cut back. Without `padding`, a model with an input
    called attention_mask is padded with zeros, any other not at all. GraphError where graphs differ in more than
    extents; otherwise as `compile_functions`, whose names here must differ.
    """
    for graph in graphs:
        require_graph(graph)
    for other in graphs[1:]:
        _require_alike(graphs[0], other)
    chosen = _masked(graphs) if padding is None else dict(padding)
    known = [value.name for value in graphs[0].inputs] if graphs else []
    for name in chosen:
        if name not in known:
            raise GraphError(f"padding is given for {name!r}, which is no input; inputs are {', '.join(known)}")
    return replace(compile_functions(graphs, target, allow_host, cache, precision), padding=chosen)


def _masked(graphs: Sequence[Graph]) -> dict[str, float]:
    """Zeros for every input that changes, if one of them is the mask."""
    changing = [values[0].name for values in zip(*(graph.inputs for graph in graphs), strict=True)
                if len({value.shape for value in values}) > 1]
    return dict.fromkeys(changing, 0.0) if MASK in changing else {}


def _require_alike(first: Graph, other: Graph) -> None:
    for what, own, others in (("inputs", first.inputs, other.inputs), ("outputs", first.outputs, other.outputs)):
        if list(map(_kind, own)) != list(map(_kind, others)):
            raise GraphError(f"{what} of {other.name!r} differ from those of {first.name!r} in more than extents: "
                             f"{_said(others)}, and {_said(own)}")


def _kind(value: Value) -> tuple[str, str, int]:
    return value.name, value.dtype, value.type.rank


def _said(values: Sequence[Value]) -> str:
    return ", ".join(f"{value.name} {value.type}" for value in values)
