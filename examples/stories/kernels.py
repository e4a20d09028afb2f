"""Compiles the programs of a training step on a Llama-style layer and runs each on the simulator.

    python examples/stories/kernels.py                               the layer of Stories110M
    python examples/stories/kernels.py --width 288 --heads 6 --hidden 768 --output kernels
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from layer import KERNELS, Builder, Layer, block

import openane as ane
from openane.ops.evaluate import evaluate

PROGRAMS: dict[str, Builder] = {**KERNELS, "block": block}


def main() -> None:
    """Prints a line a program: size, where it ran, how long, and how far it is from the reference in float32."""
    options = arguments()
    layer = Layer(options.width, options.heads, options.sequence, options.hidden)
    print(f"{layer}, ports {'each by itself' if options.separate else 'packed'}")
    for name, build in PROGRAMS.items():
        graph = build(layer, not options.separate)
        start = time.perf_counter()
        model = ane.compile(graph)
        taken = time.perf_counter() - start
        tasks = sum(len(program.tasks) for program in model.programs)
        tasks = sum(len(program.tasks) for program in model.programs)
        print(f"  {name:27} {len(model.programs)} program, {tasks:3} tasks, {len(model.host_operations)} host "
              f"operations, compiled in {taken:.2f} s; {compared(graph, model)}")
        if options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
            model.save(options.output / f"{graph.name}.hwx")


def compared(graph: ane.Graph, model: ane.Model) -> str:
    """Runs a model on drawn inputs beside the reference."""
    rng = np.random.default_rng(1)
    inputs = {value.name: rng.uniform(-1, 1, value.shape).astype(np.float16) for value in graph.inputs}
    found, wanted = ane.run(model, inputs), evaluate(graph, inputs)
    error = max(np.linalg.norm(found[name] - expected) / np.linalg.norm(expected) for name, expected in wanted.items())
    return f"relative L2 error {error:.1e}"


def arguments() -> argparse.Namespace:
    """The layer's sizes, Stories110M's by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 768), ("heads", 12), ("sequence", 256), ("hidden", 2048)):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=f"default: {value}")
    parser.add_argument("--separate", action="store_true", help="a port a part, not one surface each way")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write the programs as .hwx")
    return parser.parse_args()


if __name__ == "__main__":
    main()
