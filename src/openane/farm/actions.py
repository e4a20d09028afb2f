"""What a worker does: one job, from the model's file to plain data. A model's errors are results like others."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from openane.checking import check
from openane.chips import generations
from openane.compiler import Model, compile
from openane.compiler.inspect.fp16_concerns import drawn_samples
from openane.errors import AneError
from openane.farm.files import Files, is_here, unpacked
from openane.farm.job import FarmJob, Result, package_digest
from openane.formats import write_hwx
from openane.importers import load_graph
from openane.quantization.modelled import modelled

DIGITS = 3
"""Significant digits of an error: more depend on how many threads computed the reference."""
HOSTS = {"all": True, "none": False}
"""Words for `allow_host`; others are themselves."""


def results_of(job: FarmJob, files: Files | None = None, folder: str | None = None) -> list[Result] | None:
    """A result for each of the job's actions. `files` are the model's, where it is not read at its path, and put into
    a `folder` (or that of temporary files): None where they are not given and the path does not lead to it. AneError
    where this is not the version of the package that the job was made by, as on a worker of another machine: whatever
    goes wrong with the model is a result."""
    if job.source != package_digest():
        raise AneError("a worker has another version of openane than the farm: install the same on both")
    if files is not None:
        with unpacked(Path(job.path).name, files, folder) as path:
            return _results(job, path)
    return _results(job, Path(job.path)) if is_here(job.path, job.digest) else None


def _results(job: FarmJob, path: Path) -> list[Result]:
    compiled = _tried("compile", lambda: _compiled(job, path))
    if isinstance(compiled, Result):  # without a model nothing else is possible
        # Where it lies has no part in what is found.
        text = compiled.error.replace(str(path.parent), str(Path(job.path).parent)).removeprefix(f"{job.path}: ")
        return [replace(compiled, action=action, error=text) for action in job.actions]
    model, seconds = compiled
    results = []
    for action in job.actions:
        found = _tried(action, partial(FOUND[action], model, job.options.target))
        results.append(found if isinstance(found, Result) else
                       Result(action, found[0], seconds=found[1] + (seconds if action == "compile" else 0)))
    return results


def _tried(action: str, what: Callable[[], Any]) -> Result | tuple[Any, float]:
    """What a function gives, and how many seconds it took; or a result with the error it ended with."""
    start = time.perf_counter()
    try:
        return what(), time.perf_counter() - start
    except Exception as error:  # a defect of ours in one model does not end the others
        lacks = error.__context__.name if isinstance(error.__context__, ImportError) else None
        return Result(action, {}, type(error).__name__, str(error), time.perf_counter() - start,
                      (lacks or "").partition(".")[0])


def _compiled(job: FarmJob, path: Path) -> Model:
    options = job.options
    graph = load_graph(path, dict(options.shapes), options.function or None)
    return compile(graph, options.target, HOSTS.get(options.on_host, options.on_host), samples=drawn_samples(graph),
                   cache=True, precision=options.precision, optimise=options.optimise)


def _summary(model: Model, target: str) -> dict[str, Any]:
    digest = hashlib.sha256(b"".join(write_hwx(program) for program in model.programs)).hexdigest()
    return {"programs": len(model.programs), "tasks": sum(len(program.tasks) for program in model.programs),
            "constant_bytes": sum(len(program.constants) for program in model.programs),
            "host_operations": len(model.host_operations), "concerns": len(model.concerns), "sha256": digest}


def _checked(model: Model, target: str) -> dict[str, Any]:
    found = check(model)
    return {"right": found.right, "cause": None if found.cause is None else found.cause.operation,
            "error": max((float(f"{output.error:.{DIGITS}g}") for output in found.outputs), default=0.0),
            "infinite": sum(output.infinite for output in found.outputs)}


def _profiled(model: Model, target: str) -> dict[str, Any]:
    found = modelled(model, None if target in generations() else target)
    return {"chip": found.chip, "time_us": found.seconds * 1e6, "kind": found.kind}


FOUND: Mapping[str, Callable[[Model, str], dict[str, Any]]] = {
    "compile": _summary, "check": _checked, "profile": _profiled}
"""Action to what it finds of a compiled model, which was compiled for a machine, chip or generation of that name."""
