"""A farm whose workers are killed in turn: it must do everything, and report what one process reports.

    nice -n 10 python benchmarks/farm.py --models 100 --workers 4

Small networks of convolutions are drawn from a seed and written as packages; of every tenth a file is damaged. `ane
farm` compiles, checks and profiles them with the workers, each of which gets SIGKILL once, after another job has ended;
then it does the same in one process, from an empty cache as well. Both reports are compared as JSON, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from openane.graph import Graph
from openane.importers import write_mlpackage
from openane.ops.build import GraphBuilder

CONFIGURATION = '[farm]\nactions = ["compile", "check", "profile"]\n[[models]]\nfiles = "*.mlpackage"\n'
DAMAGED = 10
"""Of so many models one is damaged."""


def network(seed: int) -> Graph:
    """A few convolutions, with ReLU or pooling between them."""
    draw = np.random.default_rng(seed)
    builder = GraphBuilder()
    size, channels = int(draw.integers(8, 24)), int(draw.integers(1, 8))
    value = builder.input("image", "fp16", (1, channels, size, size))
    for number in range(int(draw.integers(2, 6))):
        wide = int(draw.integers(4, 32))
        weight = draw.standard_normal((wide, channels, 3, 3)) * (9 * channels) ** -0.5
        value = builder.single("conv", f"conv{number}", x=value, weight=weight.astype(np.float16), pad_type="same")
        if draw.random() < 0.7:
            value = builder.single("relu", f"relu{number}", x=value)
        channels = wide
    return builder.finish({"found": value})


def written(folder: Path, models: int) -> Path:
    """The configuration of so many networks, which are written beside it."""
    for number in range(models):
        package = folder / f"network{number:03}.mlpackage"
        write_mlpackage(network(number), package)
        if number % DAMAGED == DAMAGED - 1:
            weights = next(package.rglob("weight.bin"))
            weights.write_bytes(weights.read_bytes()[:100])
    path = folder / "networks.toml"
    path.write_text(CONFIGURATION)
    return path


def command(path: Path, name: str, workers: int, *more: str) -> list[str]:
    """`ane farm` with results in a file of that name beside the configuration."""
    return [sys.executable, "-m", "openane", "farm", str(path), "--workers", str(workers), "--json",
            "-o", str(path.with_name(f"{name}.sqlite")), *more]


def children(process: int) -> list[int]:
    """Process numbers of the workers that a farm has started (from /proc: Linux)."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return sorted(found)


def done(path: Path) -> int:
    """Rows of a file of results that may not be there yet."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=60)) as file:
        try:
            return int(file.execute("SELECT count(*) FROM results").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def killed_in_turn(path: Path, workers: int) -> tuple[str, int]:
    """The report of a farm each of whose first workers is killed once, and how many were."""
    results = path.with_name("farm.sqlite")
    farm = subprocess.Popen(command(path, "farm", workers), stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"ANE_CACHE": str(path.with_name("farm_cache"))})
    killed: set[int] = set()
    seen = 0
    while farm.poll() is None and len(killed) < workers:
        time.sleep(0.05)
        if done(results) > seen and (alive := [each for each in children(farm.pid) if each not in killed]):
            os.kill(alive[0], signal.SIGKILL)
            killed.add(alive[0])
            seen = done(results)
    printed, _ = farm.communicate()
    return printed, len(killed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was killed, how long both took and whether the reports are equal; 1 unless they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), options.models)
        start = time.perf_counter()
        found, killed = killed_in_turn(path, options.workers)
        middle = time.perf_counter()
        alone = subprocess.run(command(path, "alone", 0), stdout=subprocess.PIPE, text=True, check=False,
                               env=os.environ | {"ANE_CACHE": str(path.with_name("own_cache"))}).stdout
        end = time.perf_counter()
    counts = {name: {key: each for key, each in about.items() if each}
              for name, about in json.loads(alone)["actions"].items()}
    print(f"{options.models} models, {options.workers} workers of which {killed} were killed in turn: "
          f"{middle - start:.0f} s; one process: {end - middle:.0f} s")
    print(f"one process: {counts}")
    print(f"the reports are {'equal' if found == alone else 'NOT equal'}")
    return int(found != alone or killed < options.workers)


if __name__ == "__main__":
    sys.exit(main())
