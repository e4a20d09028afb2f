"""What profiling costs: microseconds of processor time a task, beside decoding the same tasks alone.

    python benchmarks/profiling.py [--json]

Modelling and document together; the report in HTML is apart. The networks are those of `benchmarks/models.py` with
drawn weights, compiled for H13. Times are the best of several rounds, but for the first call, which finds nothing
remembered. The limit is 200.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from networks.topologies import topology
from networks.transformers import minilm

import openane as ane
from openane.cli.profile import subject_of
from openane.report import ProfileSubject, document, html, profile
from openane.timing import operations_of

LIMIT = 200.0
ROUNDS = 15
NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "minilm": lambda: minilm(64), "resnet50": lambda: topology("resnet50")}


def compiled(make: Callable[[], onnx.ModelProto]) -> ane.Model:
    """A network's model, by way of a file as users have it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(make(), path)
        return ane.compile(ane.load_graph(path))


def seconds(work: Callable[[], object]) -> float:
    """Of the processor for one call: others on the machine take none of it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measured(name: str) -> dict[str, Any]:
    """Microseconds a task: first call, best call, decoding alone, and the whole report in HTML."""
    model = compiled(NETWORKS[name])
    subject: ProfileSubject = subject_of(model)
    tasks = sum(len(program.tasks) for program in subject.programs)

    def whole() -> object:
        return document(profile(subject, "m1"))

    def decoding() -> object:
        return [operations_of(program) for program in subject.programs]

    def page() -> object:
        origins = [html.OperationPlace(entry.operation, str(entry.where), entry.reason) for entry in model.report]
        return html.page(html.gathered(profile(subject, "m1"), model.graph, origins))

    first = seconds(whole)
    best = min(seconds(whole) for _ in range(ROUNDS))
    alone = min(seconds(decoding) for _ in range(ROUNDS))
    return {"network": name, "tasks": tasks, **{key: value / tasks * 1e6 for key, value in
            (("first_us", first), ("profile_us", best), ("decode_us", alone), ("html_us", seconds(page)))}}


def main(arguments: list[str]) -> int:
    """Prints one line per network; 1 when one is over the limit."""
    found = [measured(name) for name in NETWORKS]
    if "--json" in arguments:
        print(json.dumps(found, indent=2))
    else:
        for row in found:
            print(f"{row['network']:10} {row['tasks']:4} tasks: profile {row['profile_us']:.0f} us a task "
                  f"({row['profile_us'] / row['decode_us']:.2f} x decoding alone, first call {row['first_us']:.0f}), "
                  f"report in HTML {row['html_us']:.0f}; limit {LIMIT:.0f}")
    return int(any(row["profile_us"] > LIMIT for row in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
