"""What compiling and loading a network take over what they took at an earlier commit, in one run.

    python benchmarks/earlier.py [NETWORK]... [--commit HASH]

Two processes, one with this source and one with the commit's, do the same in turns after once to warm up: compile the
graph, and load the saved bundle into the simulator (reading, verification and preparation). Each line is the fastest of
ours over the fastest of the earlier, with its aim; the last lines are geometric means. The commit comes out of the
repository's history: without it there is nothing to compare with, which is said.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory

import onnx
from guarded.kept import FILTER
from networks.topologies import NAMES, topology
from networks.transformers import minilm

ROOT = Path(__file__).parents[1]
COMMIT = "04fbe33"
"""Before tasks were decoded once and rooms had walls."""
NETWORKS = ("resnet50", "minilm")
AIMS = {"load": 0.6, "compile": 0.9}
REPEATS = 10
WORKER = """
import sys, time
import openane as ane
model, bundle, digits = sys.argv[1:]
graph = ane.load_graph(model)
ane.compile(ane.load_graph(digits))
ane.compile(graph).save(bundle)

def load():
    with ane.open_device("simulator") as device:
        device.load(ane.Model.load(bundle))

actions = {"compile": lambda: ane.compile(graph), "load": load}
for line in sys.stdin:
    action = actions[line.strip()]
    start = time.process_time()
    action()
    print(time.process_time() - start, flush=True)
"""


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"default: {' '.join(NETWORKS)}")
    parser.add_argument("--commit", default=COMMIT, help="what to compare with (default: %(default)s)")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as place:
        folder = Path(place)
        try:
            source = archived(options.commit, folder / "earlier")
        except (OSError, subprocess.CalledProcessError):
            print(f"earlier: the history here does not have commit {options.commit}: nothing to compare with")
            return 0
        ratios = [compare(network, source, folder, options.commit) for network in options.networks or NETWORKS]
    for action, aim in AIMS.items():
        mean = geometric_mean([each[action] for each in ratios])
        print(f"{action + ' over ' + options.commit:22} {'mean':10} {mean:5.2f}  (aim {aim}; geometric)")
    return 0


def archived(commit: str, folder: Path) -> Path:
    """The source of a commit."""
    done = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, **FILTER)
    return folder / "src"


def compare(network: str, earlier: Path, folder: Path, commit: str) -> dict[str, float]:
    """Prints the lines of one network, and returns their ratios by action."""
    model = folder / f"{network}.onnx"
    onnx.save(topology(network) if network in NAMES else minilm(128), model)
    with Worker(ROOT / "src", model, folder / f"{network}-ours.ane") as ours, \
            Worker(earlier, model, folder / f"{network}-earlier.ane") as theirs:
        ratios = {}
        for action, aim in AIMS.items():
            times = [(ours.time(action), theirs.time(action)) for _ in range(REPEATS + 1)][1:]
            best = [min(each) for each in zip(*times, strict=True)]
            ratios[action] = best[0] / best[1]
            print(f"{action + ' over ' + commit:22} {network:10} {ratios[action]:5.2f}  (aim {aim}; "
                  f"{1e3 * best[0]:.0f} ms over {1e3 * best[1]:.0f} ms of processor time, warm)", flush=True)
        return ratios


class Worker:
    """A process that compiles and loads one network with one source."""

    def __init__(self, source: Path, model: Path, bundle: Path) -> None:
        digits = ROOT / "examples" / "digits" / "digits.onnx"
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(model), str(bundle), str(digits)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(source)})

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def time(self, action: str) -> float:
        """Seconds of processor time an action takes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{action}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
