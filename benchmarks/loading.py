"""What it costs to have a model ready, in one run: every line is a ratio to a peer, with its aim.

Compiling a model file over onnxruntime's creation of a session from it; taking it from the cache over reading and
hashing the same bytes (the constants of the graph, the files of the entry); loading what was compiled on the simulator,
and running it once besides, over the same of a session; patching every constant of several numbers over casting and
transposing them in numpy, just compiled and saved and loaded (see patching.py); memory while compiling over the weights
in fp16; memory while a model is loaded and run once over its weights in fp16, and over them with what its programs ask
for besides, the 2 MiB of L2 and the buffers (of a small model those are more than the weights). Memory is the most that
Python and numpy have allocated at a time beyond what was there before (the graph; for loading, the compiled model with
its constants), everything imported; models.py measures what the system sees. The classifiers are those of the onnx
package with seeded weights. Names as arguments choose some of them.
"""

from __future__ import annotations

import hashlib
import math
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from networks.topologies import NAMES, topology
from patching import patched

import openane as ane
from openane.cache import Cache
from openane.chips import get_chip
from openane.compiler.cache import compiler_digest
from openane.graph import Graph

DEFAULT = ("squeezenet", "shufflenet", "resnet50")
DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
REPEATS = 3
AIMS = {"compile / session": "geometric mean at most 5, worst at most 20", "cached load / read and hash": "at most 2",
        "patch / cast and transpose": "at most 2", "patch reloaded / cast and transpose": "at most 2",
        "load / session": "at most 1", "load and run / session and run": "at most 2",
        "memory compiling / fp16 weights": "at most 4",
        "memory loaded / fp16 weights": "at most 4", "memory loaded / weights, buffers, L2": "beside the line above"}


def together(ours: Callable[[], object], peer: Callable[[], object]) -> float:
    """Fastest run of ours over the fastest of the peer, taken in turns after one of each to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS + 1):
        for function, taken in zip((ours, peer), times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return min(times[0][1:]) / min(times[1][1:])


def weights(graph: Graph) -> dict[str, np.ndarray]:
    """Every constant of real numbers by name."""
    return {value.name: value.data for node in graph.nodes for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f"}


def compiling(path: Path) -> float:
    """From the file to a compiled model, over a session of onnxruntime."""
    return together(lambda: ane.compile(ane.load_graph(path)), lambda: onnxruntime.InferenceSession(str(path)))


def cached(graph: Graph, folder: Path) -> float:
    """A compilation that the cache answers, over reading the entry and hashing it and the graph's constants."""
    ane.compile(graph, cache=folder)
    compiler_digest()  # once per process
    [entry] = Cache(folder).entries()
    files = [file for file in (folder / entry.key).rglob("*") if file.is_file()]

    def peer() -> None:
        digest = hashlib.blake2b()
        for file in files:
            digest.update(file.read_bytes())
        for array in weights(graph).values():
            digest.update(np.ascontiguousarray(array).data)

    return together(lambda: ane.compile(graph, cache=folder), peer)


def verified_and_prepared(model: ane.Model, path: Path) -> float:
    """Loading a compiled model on the simulator, over a session of onnxruntime."""
    with ane.open_device("simulator?arithmetic=fast") as device:
        return together(lambda: device.load(model).close(), lambda: onnxruntime.InferenceSession(str(path)))


def run_the_first_time(model: ane.Model, path: Path) -> float:
    """Loading and running it once on zeros, when weights are unpacked, over the same of a session."""
    inputs = {port.name: np.zeros(port.shape, np.float32) for port in model.inputs}
    return together(lambda: run_once(model), lambda: onnxruntime.InferenceSession(str(path)).run(None, inputs))


def peak(action: Callable[[], object]) -> int:
    """Bytes allocated at the peak of an action, beyond what was there."""
    tracemalloc.start()
    kept = action()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return size


def run_once(model: ane.Model) -> object:
    """Loads a model on the simulator and runs it on zeros."""
    inputs = {port.name: np.zeros(port.shape, np.float16) for port in model.inputs}
    with ane.open_device("simulator?arithmetic=fast") as device, device.load(model) as executable:
        return executable.run(inputs)


def measured(name: str, path: Path, folder: Path) -> Iterator[tuple[str, float]]:
    """Every ratio of one model."""
    graph = ane.load_graph(path)
    size = sum(array.size * 2 for array in weights(graph).values())
    yield "compile / session", compiling(path)
    yield "cached load / read and hash", cached(graph, folder / name)
    made = patched(graph, folder)
    yield "patch / cast and transpose", made.ratios["fresh"]
    yield "patch reloaded / cast and transpose", made.ratios["reloaded"]
    yield "memory compiling / fp16 weights", peak(lambda: ane.compile(graph)) / size
    model = ane.compile(graph)
    yield "load / session", verified_and_prepared(model, path)
    yield "load and run / session and run", run_the_first_time(model, path)
    l2 = get_chip(model.target).limits.l2_size * len(model.programs)
    asked = sum(buffer.size for program in model.programs for buffer in program.buffers) + l2
    held = peak(lambda: run_once(model))
    yield "memory loaded / fp16 weights", held / size
    yield "memory loaded / weights, buffers, L2", held / (size + asked)


def main(names: list[str]) -> int:
    """Prints the ratios of each model, then their geometric means and worsts."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"there is no model {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    run_once(ane.compile(ane.load_graph(DIGITS)))  # imports everything
    table: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for name in names or DEFAULT:
            path = Path(place) / f"{name}.onnx"
            onnx.save(topology(name), path)
            for what, ratio in measured(name, path, Path(place)):
                table.setdefault(what, []).append(ratio)
                print(f"{name:14s} {what:41s} {ratio:6.2f}   ({AIMS[what]})", flush=True)
            path.unlink()
    for what, ratios in table.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{'all':14s} {what:41s} {mean:6.2f} geometric mean, {max(ratios):.2f} worst   ({AIMS[what]})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
