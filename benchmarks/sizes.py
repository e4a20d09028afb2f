"""What compiling costs as graphs grow: 100, 1,000, 10,000 and 100,000 operations.

    python benchmarks/sizes.py [COUNT]... [--precision as-is]

The graph is a chain of residual blocks (1x1 convolution of 64 channels, relu, another, sum) with a layer norm after
every sixteenth: engine operations of both engines, all with weights of their own. Each size is compiled in a process of
its own. Prints processor time per operation and that over the smallest graph's, and the most memory the process takes
for compiling (beyond what it held with the graph made) over the constants of the programs. Both stay as they are where
cost grows linearly. Exit code 1 where one is beyond its aim.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
from networks.memory import highest_memory

import openane as ane
from openane.compiler.precision import PrecisionMode
from openane.graph import Graph
from openane.ops.build import GraphBuilder

COUNTS = (100, 1_000, 10_000, 100_000)
CHANNELS, SIDE = 64, 8
NORM_AFTER = 16
GROWTH = 2.0
"""How many times the smallest graph's time per operation another may take: what is linear still differs in caches."""
MEMORY = 4.0
"""How many times its constants compiling may take."""


def residual_chain(count: int) -> Graph:
    """A graph of at least `count` operations."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("chain")
    x, made = builder.input("x", "fp16", (1, CHANNELS, SIDE, SIDE)), 0

    def weight(gain: float) -> np.ndarray:
        return (rng.standard_normal((CHANNELS, CHANNELS, 1, 1)) * gain / CHANNELS ** 0.5).astype(np.float16)

    for block in range(-(-count // 4)):
        inner = builder.single("relu", x=builder.single("conv", x=x, weight=weight(1.0)))
        x = builder.single("add", x=x, y=builder.single("conv", x=inner, weight=weight(0.25)))
        made += 4
        if block % NORM_AFTER == NORM_AFTER - 1:
            x = builder.single("layer_norm", x=x, axes=[1])
            made += 1
    return builder.finish({"y": x})


def measure(count: int, precision: str) -> dict[str, float]:
    """Seconds of processor time, operations, tasks, bytes of constants, bytes of memory."""
    ane.compile(residual_chain(8), precision=precision)  # imports everything
    graph = residual_chain(count)
    before, start = highest_memory(), time.process_time()
    model = ane.compile(graph, precision=precision)
    seconds = time.process_time() - start
    return {"seconds": seconds, "operations": len(graph.nodes), "memory": highest_memory() - before,
            "tasks": sum(len(program.tasks) for program in model.programs),
            "constants": sum(len(program.constants) for program in model.programs)}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, default=list(COUNTS), metavar="COUNT", help="operations")
    parser.add_argument("--precision", default=str(PrecisionMode.SAFE), choices=list(PrecisionMode))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.counts[0], options.precision)))
        return 0
    first, good = 0.0, True
    for count in options.counts:
        command = [sys.executable, __file__, str(count), "--precision", options.precision, "--measure"]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        each, memory = found["seconds"] / found["operations"], found["memory"] / found["constants"]
        first = first or each
        good = good and each <= GROWTH * first and memory <= MEMORY
        print(f"sizes  {found['operations']:>7} operations  {found['tasks']:>7} tasks  {1e6 * each:6.0f} us each, "
              f"{each / first:4.2f} of the smallest graph's (aim {GROWTH:g})   memory over constants {memory:4.1f} "
              f"(aim {MEMORY:g})", flush=True)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
