"""One model for several generations of the engine: what a device of any of them takes from one bundle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from openane.chips.machines import ALL, named_targets, target
from openane.compiler.api import compile
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.precision import PrecisionMode, Samples, precise
from openane.compiler.saved_model import Model
from openane.graph import Graph
from openane.graph.given import require_graph


def compile_for(graph: Graph, targets: str | Iterable[str] = ALL, allow_host: AllowHost = LOOKUPS,
                samples: Samples | None = None, cache: bool | str | Path = False,
                precision: str = PrecisionMode.SAFE) -> Model:
    """The graph compiled for several targets, as one model: that of the first, with the others in `targets`.

    `targets` are machines, chips or generations, in a text between commas or one by one; `all` is every generation that
    programs are compiled for. Each generation is compiled for once. A device loads the programs of its own generation,
    a device of any that of the first; `Model.save` writes all of them into one bundle. Other arguments, and errors, as
    for `compile`: a target that refuses the graph refuses all of it.
    """
    require_graph(graph)
    generations = dict.fromkeys(target(name).name for name in named_targets(targets))
    if not cache:  # ranges are the same on all
        graph, precision = precise(graph, precision, samples), PrecisionMode.AS_IS
    first, *others = (compile(graph, name, allow_host, samples=samples, cache=cache, precision=precision)
                      for name in generations)
    return first.with_targets(others)
