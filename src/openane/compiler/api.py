"""The user's side of the compiler: `compile`, and the model it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET, machines
from openane.compiler.artifact.bundle import load_model, save_model
from openane.compiler.cache import cached
from openane.compiler.inspect.dump import Dump
from openane.compiler.model import CompiledModel
from openane.compiler.partition.capacity import Capacity
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.patch_model import PatchedModel, patch
from openane.compiler.pipeline import compile_graph
from openane.compiler.precision import PrecisionMode, Samples, precise, require_known, several
from openane.compiler.records import Watch
from openane.graph import Graph


class Model(CompiledModel):
    """A compiled model; its fields are those of the record."""

    @staticmethod
    def of(record: CompiledModel) -> Model:
        """The model, with its other functions and targets, of a record."""
        parts = {field.name: getattr(record, field.name) for field in fields(record)}
        return Model(**parts | {name: tuple(map(Model.of, parts[name])) for name in ("others", "other_targets")})

    def save(self, path: str | Path, *, layout: str = "macos26", header: int = 0x1000) -> None:
        """Writes a bundle (`NAME.ane`), or `.hwx` / `.anec` for a model that is one engine program.

        `layout` is the form of a `.hwx`: `macos26`, or `compat` for the Linux tools. `header` is the size of an
        `.anec`'s header, 0x1000 or 0x800. GraphError, ProgramError when the model has no such form.
        """
        save_model(self, Path(path), layout, header)

    def patch(self, arrays: Mapping[str, np.ndarray]) -> PatchedModel[Model]:
        """The model with the constants `arrays` names replaced, and the bytes that changed; see patch_model.patch. A
        model from a file or the cache is patched as one just compiled is, one for several targets for all of them."""
        found = patch(self, arrays)
        others = tuple(patch(other, arrays).model for other in self.other_targets)
        return replace(found, model=replace(found.model, other_targets=others)) if others else found

    @staticmethod
    def load(path: str | Path) -> Model:
        """Reads a bundle back. FormatError when it is not one."""
        return Model.of(load_model(Path(path)))


def compile(graph: Graph, target: str = DEFAULT_TARGET, allow_host: AllowHost = LOOKUPS, watch: Watch | None = None,
            samples: Samples | None = None, cache: bool | str | Path = False,
            capacity: Capacity | None = None, precision: str = PrecisionMode.SAFE) -> Model:
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
    leaves fp16 on the first of `samples`.
    """
    target = machines.target(target).name
    require_known(precision)
    if cache and watch is None and capacity is None:
        return Model.of(cached(graph, target, allow_host, samples, None if cache is True else Path(cache), precision))
    graph = precise(graph, precision, samples)
    return Model.of(compile_graph(graph, target, allow_host, None if watch is None else Dump(watch),
                                  next(iter(several(samples)), None), capacity))
