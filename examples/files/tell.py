"""Says what files hold by their bytes alone, with Magika on the engine.

    python examples/files/tell.py FILE...
    python examples/files/tell.py --check           ten files the example makes, beside onnxruntime
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np


def main() -> int:
    """Prints the likeliest kind of each file; 1 when something is not installed, or `--check` finds another one."""
    options = arguments()
    missing = [name for name in ("onnx", *(["onnxruntime"] if options.check else []),
                                 *(["matplotlib"] if options.picture else [])) if find_spec(name) is None]
    if missing:
        print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    from content import INSTALL, EngineNetwork, ends_of, labels, model_folder, runtime_network
    from samples import made
    folder = model_folder()
    if folder is None:
        print(f"the network is not installed: {INSTALL}", file=sys.stderr)
        return 1
    files = {name: Path(name).read_bytes() for name in options.files} or made()
    known = labels(folder)
    with EngineNetwork(folder, options.device) as network:
        start = time.perf_counter()
        chances = {name: network(ends_of(content)) for name, content in files.items()}
        each = (time.perf_counter() - start) / len(files)
        print(f"{len(network.model.program.tasks)} tasks, {len(network.model.host_operations)} operations on the host, "
              f"{each * 1000:.0f} ms a file")
    for name, found in chances.items():
        print(f"  {name:24} {known[found.argmax()]:16} {found.max():.3f}")
    if options.picture:
        picture({name: (known[found.argmax()], float(found.max())) for name, found in chances.items()}, options.picture)
    if not options.check:
        return 0
    beside = runtime_network(folder)
    wanted = {name: beside(ends_of(content)) for name, content in files.items()}
    same = sum(chances[name].argmax() == wanted[name].argmax() for name in files)
    far = max(np.abs(chances[name] - wanted[name]).max() for name in files)
    print(f"{same} of {len(files)} are what onnxruntime says; probabilities differ by at most {far:.4f}")
    return int(same != len(files))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Says what files hold.")
    parser.add_argument("files", nargs="*", help="the files; without any the example makes ten")
    parser.add_argument("--device", default="simulator?arithmetic=fast", help="where the network runs")
    parser.add_argument("--picture", help="write the kinds and how sure they are to this file")
    parser.add_argument("--check", action="store_true", help="compare with onnxruntime")
    return parser.parse_args()


def picture(found: dict[str, tuple[str, float]], path: str) -> None:
    """A bar for each file: how sure the network is of its kind."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 0.34 * len(found) + 0.7), layout="constrained")
    bars = axes.barh(list(found), [sure for _, sure in found.values()], color="#8fb3e6")
    axes.bar_label(bars, [kind for kind, _ in found.values()], padding=-70, color="#123")
    axes.invert_yaxis()
    axes.set(xlabel="probability", xlim=(0, 1))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
