"""The user's side of the compiler: `compile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openane.chips import DEFAULT_TARGET, machines
from openane.compiler.model import CompiledModel
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.precision import PrecisionMode, Samples, precise, require_known, several
from openane.compiler.records import Watch
from openane.compiler.saved_model import Model
from openane.graph import Graph
from openane.graph.given import require_graph
from openane.ops.optimisation import with_level
from openane.passes.folded_once import folded_once
from openane.record_classes import many_records

if TYPE_CHECKING:
    from openane.compiler.inspect.dump import Dump
    from openane.compiler.partition.capacity import Capacity


def compile(graph: Graph, target: str = DEFAULT_TARGET, allow_host: AllowHost = LOOKUPS, watch: Watch | None = None,
            samples: Samples | None = None, cache: bool | str | Path = False,
            capacity: Capacity | None = None, precision: str = PrecisionMode.SAFE,
            optimise: int | None = None) -> Model:
    """The graph as engine programs for `target` (a machine, chip or generation): one, or as many as hold it.

    Everything runs on the engine except packing of ports (element type fp32, strides) and what `allow_host` lets the
    host compute between programs where the engine cannot: lookups at positions computed while the model runs, and
    arithmetic on integers ("lookups"), everything (True), nothing (False), or MIL operations by name. The report lists
    each with the rule it breaks. UnsupportedError names every other operation the engine cannot take; GraphError when
    the graph is malformed. `watch`
    is called with the name and text of every stage: the graph after each pass, lowered operations, what stays in L2,
    placement, tiling, weights. `cache` keeps compiled models in a folder and takes them from there: True is the
    user's own (see openane.cache). `capacity` makes programs smaller than they could be.
    `precision`: `safe` evaluates the model in fp32 on `samples` (arrays by input name, of one sample or several; drawn
    where there are none) and moves numbers that leave the engine's range into it, `as-is` leaves them, `fast` makes a
    table of every function; see compiler.precision. `concerns` of the result say what was moved, and where the model
    leaves fp16 on the first of `samples`. `optimise`: how far programs are changed to take less time, 0 to 3, see
    docs/optimising.md; at 0 they are as Apple's compiler makes them; None: as the graph says.
    """
    require_graph(graph)
    target = machines.target(target).name
    require_known(precision)
    graph = graph if optimise is None else with_level(graph, optimise)
    with many_records(), folded_once():
        return Model.of(_compiled(graph, target, allow_host, watch, samples, cache, capacity, precision))


def _compiled(graph: Graph, target: str, allow_host: AllowHost, watch: Watch | None, samples: Samples | None,
              cache: bool | str | Path, capacity: Capacity | None, precision: str) -> CompiledModel:
    if cache and watch is None and capacity is None:
        from openane.compiler.cache import cached

        return cached(graph, target, allow_host, samples, None if cache is True else Path(cache), precision)
    from openane.compiler.pipeline import compile_graph

    graph = precise(graph, precision, samples)
    return compile_graph(graph, target, allow_host, None if watch is None else _dump(watch),
                         next(iter(several(samples)), None), capacity)


def _dump(watch: Watch) -> Dump:
    """What tells `watch`. Imported where somebody watches: it prints graphs in MIL."""
    from openane.compiler.inspect.dump import Dump

    return Dump(watch)
