"""One model of the zoo tried in a process of its own: loaded, compiled, verified, run on the simulator and compared.

    python -m zoo_models.trial LIBRARY/NAME [--packages FOLDER]

prints what became of it as one line of JSON. The compiler is asked for the engine alone first; then the host is allowed
lookups and integers (what `openane.compile` does unless it is told otherwise); then whatever the engine cannot take.
Errors are relative to the largest number of an output; the worst output counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openane as ane
from openane.compiler import LOOKUPS, Model
from openane.compiler.precision import PrecisionMode, with_functions
from openane.errors import AneError
from openane.graph import Graph
from openane.ops.halves import RESCALED
from openane.program.verify import verify
from openane.timing import program_time, rates
from zoo_models.halves import results_in_halves
from zoo_models.libraries import PUBLISHED, Built, Described, build, described
from zoo_models.packages import published
from zoo_models.source import Source
from zoo_models.verdicts import worst

Document = dict[str, Any]
POLICIES = {"engine": False, "lookups": LOOKUPS, "host": True}
"""What is asked of the compiler, one after another, by the name of the verdict."""
TEXT = 600
"""How much of a message is kept."""
CHIP = "m1"
"""Of which the time is modelled."""


def tried(model: Described, packages: Path) -> Document:
    """What became of a model: `verdict` (unbuilt, unloaded, refused, engine, lookups, host), the message where it was
    refused, errors, counts and seconds; `rescaled` where tensors are held times powers of two."""
    document: Document = {"model": model.key, "seconds": {}}
    clock = _Clock(document["seconds"])
    try:
        source = clock("build", lambda: published(model.says, packages) if model.library == PUBLISHED
                       else _exported(build(model)))
    except Exception as error:
        return document | {"verdict": "unbuilt", "message": _said(error)}
    try:
        graph = clock("load", source.load)
    except AneError as error:
        return document | {"verdict": "unloaded", "message": str(error)[:TEXT]}
    document |= {"operations": len(graph.nodes)}
    compiled = _compiled(graph, document, clock)
    if compiled is None:
        return document
    if any(key.startswith(RESCALED) for key in compiled.graph.metadata):
        document["rescaled"] = clock("as-is", lambda: _cost(graph, compiled, POLICIES[document["verdict"]]))
    for program in compiled.programs:
        clock("verify", lambda program=program: verify(program))
    named = dict(zip((port.name for port in compiled.inputs), source.inputs, strict=True)) \
        if isinstance(source.inputs, list) else source.inputs
    found = clock("run", lambda: ane.run(compiled, named, "simulator?arithmetic=exact"))
    written = {f"{port.name}_written" for port in compiled.inputs}  # what the program leaves in an input is no result
    outputs = [found[port.name] for port in compiled.outputs if port.name not in written]
    document["error"] = worst(outputs, source.wanted)
    if source.half is not None:
        document["half_error"] = worst(source.half, source.wanted)
    return document


class _Clock:
    """Adds up seconds of the processor by name: those of a clock say how busy the machine was."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        try:
            return action()
        finally:
            self._seconds[name] = round(self._seconds.get(name, 0.0) + time.process_time() - start, 3)


def _compiled(graph: Graph, document: Document, clock: _Clock) -> Model | None:
    """The model, compiled with as little on the host as it takes; what was refused on the way is kept."""
    for verdict, allowed in POLICIES.items():
        try:
            model: Model = clock("compile", lambda allowed=allowed: ane.compile(graph, allow_host=allowed))
        except AneError as error:
            document |= {"verdict": "refused", "message": str(error)[:TEXT]}
            continue
        document.pop("message", None)
        document |= {"verdict": verdict, "tasks": sum(len(p.tasks) for p in model.programs),
                     "programs": len(model.programs), "inputs": len(model.inputs),
                     "host": Counter(entry.operation.split()[0] for entry in model.host_operations)}
        return model
    return None


def _cost(graph: Graph, compiled: Model, allowed: bool | str) -> Document:
    """What holding tensors times powers of two costs: how many tasks more than with the same functions and tensors as
    they are, and by which share the modelled time is longer."""
    plain = ane.compile(with_functions(graph, PrecisionMode.SAFE), allow_host=allowed, precision=PrecisionMode.AS_IS)
    tasks, seconds = zip(*((sum(len(program.tasks) for program in model.programs),
                            sum(program_time(program, rates(CHIP)).seconds for program in model.programs))
                           for model in (plain, compiled)), strict=True)
    return {"tasks": tasks[1] - tasks[0], "time": round(seconds[1] / seconds[0] - 1, 4)}


def _exported(built: Built) -> Source:
    """A module of PyTorch as torch.export hands it over."""
    import torch
    from torch.utils._pytree import tree_leaves

    def run(module: Any, arguments: Any) -> list[np.ndarray]:
        with torch.no_grad():
            given, keywords = torch.utils._pytree.tree_map(copied, arguments)  # the module may write into them
            return [leaf.float().numpy() if leaf.is_floating_point() else leaf.numpy()
                    for leaf in tree_leaves(_plain(module(*given, **keywords))) if isinstance(leaf, torch.Tensor)]

    def copied(leaf: Any) -> Any:
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf

    def halved(leaf: Any) -> Any:
        return leaf.half() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    given = (built.arguments, built.keywords)
    wanted = run(built.module, given)
    with torch.no_grad():
        program = torch.export.export(built.module, *given, strict=False)
    inputs = [leaf.numpy() for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    half: list[np.ndarray] | None
    built.module.half()
    try:
        half = run(built.module, torch.utils._pytree.tree_map(halved, given))
    except (RuntimeError, NotImplementedError, TypeError):  # PyTorch has no such operation in fp16 here
        with results_in_halves():
            half = run(built.module.float(), given)
    built.module.float()
    return Source(lambda: ane.load_graph(program), inputs, wanted, half)


def _plain(result: Any) -> Any:
    """A model's result as PyTorch can walk it: outputs of transformers are ordered dictionaries."""
    return {name: value for name, value in result.items() if value is not None} if hasattr(result, "items") else result


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:TEXT]


def main() -> int:
    """Prints the document of one model. What is no AneError ends the process with its traceback."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="library/name")
    parser.add_argument("--packages", type=Path, required=True, help="where wheels of published networks are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = next((each for each in described() if each.key == options.model), None)
    if model is None:
        parser.error(f"no model is called {options.model}")
    print(json.dumps(tried(model, options.packages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
