"""New numbers for every constant of a model, over what numpy takes to cast and transpose them, in one run.

The networks are those of models.py. `Model.patch` is given a new float32 array for every constant of more than one
number, and the peer casts the same arrays to fp16 and moves their first axis to the end. Three ratios: of a model just
compiled, of one that was saved and loaded, and of the first patch of the loaded model, which reads its routes and,
where something it needs is not given (the epsilon of a normalisation), its graph. Names as arguments choose some.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from models import NETWORKS

import openane as ane
from openane.compiler.patch_model import in_place
from openane.graph import Graph

REPEATS = 5
"""Turns at least; more of what is quick."""
QUICK = 3.0
"""Seconds in which there may be more turns, up to ten times as many."""
AIM = 2.0
KINDS = ("fresh", "reloaded")


@dataclass(frozen=True, slots=True)
class Patched:
    """Ratios of a network by kind, of the first patch after loading, and why constants were not written in place."""

    ratios: Mapping[str, float]
    first: float
    refused: str
    constants: int
    elements: int


def constants(graph: Graph) -> dict[str, np.ndarray]:
    """New float32 arrays for every constant of several real numbers."""
    return {value.name: value.data.astype(np.float32) * np.float32(1.01) for node in graph.nodes
            for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" and value.data.size > 1}


def turned(arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The peer: every array as fp16 with its first axis last."""
    return [np.ascontiguousarray(np.moveaxis(array.astype(np.float16), 0, -1)) for array in arrays.values()]


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def patched(graph: Graph, folder: Path) -> Patched:
    """Fastest of several turns of ours over the fastest of the peer in the same turns."""
    arrays, fresh = constants(graph), ane.compile(graph)
    fresh.save(folder / "m.ane")
    models = dict(zip(KINDS, (fresh, ane.Model.load(folder / "m.ane")), strict=True))
    turned(arrays)
    first = {kind: seconds(lambda model=model: model.patch(arrays)) for kind, model in models.items()}  # type: ignore[misc]
    turns, start = list[tuple[float, ...]](), time.perf_counter()
    while len(turns) < REPEATS or (len(turns) < 10 * REPEATS and time.perf_counter() - start < QUICK):
        turns.append((seconds(lambda: turned(arrays)),
                      *(seconds(lambda model=model: model.patch(arrays)) for model in models.values())))  # type: ignore[misc]
    peer, *ours = (min(times) for times in zip(*turns, strict=True))
    return Patched({kind: time / peer for kind, time in zip(KINDS, ours, strict=True)}, first["reloaded"] / peer,
                   in_place(models["reloaded"], arrays), len(arrays), sum(array.size for array in arrays.values()))


def measured(names: list[str], folder: Path) -> Iterator[tuple[str, Patched]]:
    for name in names:
        path = folder / f"{name}.onnx"
        onnx.save(NETWORKS[name]().model, path)
        with tempfile.TemporaryDirectory() as place:
            yield name, patched(ane.load_graph(path), Path(place))
        path.unlink()


def main(names: list[str]) -> int:
    """Prints a line per network, then geometric means and worsts, and what falls short."""
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        print(f"no network is called {unknown[0]!r}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    found: dict[str, Patched] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, result in measured(names or list(NETWORKS), Path(folder)):
            found[name] = result
            ratios = "   ".join(f"{kind} {ratio:5.2f}" for kind, ratio in result.ratios.items())
            again = f"   compiled again: {result.refused}" if result.refused else ""
            print(f"patch  {name:<22} {result.constants:>4} constants, {result.elements / 1e6:6.1f} million numbers   "
                  f"{ratios}   first after loading {result.first:5.2f}{again}", flush=True)
    for kind in KINDS:
        ratios = {name: result.ratios[kind] for name, result in found.items()}
        mean, worst = math.exp(sum(map(math.log, ratios.values())) / len(ratios)), max(ratios, key=lambda n: ratios[n])
        short = ", ".join(name for name, ratio in ratios.items() if ratio > AIM)
        print(f"patch  {kind:<10} geometric mean {mean:5.2f} (aim {AIM:g})   worst {ratios[worst]:5.2f}, {worst} "
              f"(aim {AIM:g})   above: {short or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
