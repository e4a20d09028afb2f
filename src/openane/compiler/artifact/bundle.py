"""Compiled models on disk.

A bundle is a directory `NAME.ane` with these files:

* `manifest.json`: per function its ports, steps, states and report;
* `programs/0.hwx`, ...: the engine programs (see `formats.bundled`);
* `model.mil`: the source graphs as functions, and the operations of host steps as further functions;
* `weights/weight.bin`: all constants of these graphs, equal ones once;
* `weights/digits.bin`: what constants have beyond fp16, where the model counts in steps (see `stated_digits`);
* `routes.json`: where constants lie in the programs, so that others can be put there (see `patch.routes_json`);
* `seal.json`: length and digest of each of these files (see `formats.sealed`).

One of a model for several generations of the engine has the functions of each of them, one generation after the other,
the source graphs once, and `routes/h13.json`, ... instead of `routes.json`.

A model that is one engine program can also be a single `.hwx` or `.anec` file, which holds neither the report nor the
source graph.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from openane.chips import Limits, get_chip
from openane.compiler.artifact.manifest import describe, restore
from openane.compiler.artifact.source_graphs import FUNCTIONS, join_graphs, read_graphs
from openane.compiler.artifact.stated_digits import write_digits
from openane.compiler.model import CompiledModel, Source
from openane.compiler.patch.patchable import FILE as ROUTES
from openane.compiler.patch.patchable import Patchable
from openane.compiler.weights.layout_records import Routes
from openane.errors import FormatError, GraphError
from openane.formats import read_hwx, save_program, write_hwx
from openane.formats.bundled import COMPILE_AGAIN, MANIFEST, SHARED, Bundle, Read, divided, program_data, whole_name
from openane.formats.folders import write_folder
from openane.formats.sealed import SEAL, AbsentFile, written_seal
from openane.graph import Graph
from openane.program import Constants, Program

VERSION = 2
"""Of a bundle for one generation."""
SEVERAL = 3
"""Of a bundle for several."""
LARGEST_MANIFEST = 1 << 26
PROGRAM_SUFFIXES = (".hwx", ".anec")
OURS = (MANIFEST, "programs", "weights", "routes", FUNCTIONS, ROUTES, SEAL)


def save_model(model: CompiledModel, path: Path, layout: str = "macos26", header: int = 0x1000) -> None:
    """Writes `model` to `path`; see api.Model.save. GraphError when a single file cannot hold it."""
    if path.suffix in PROGRAM_SUFFIXES:
        if not model.one_program:
            raise GraphError(f"{path.name}: a {path.suffix} file holds exactly one engine program and no host "
                             f"operations; this model has {_counts(model)}: save a bundle, NAME.ane")
        save_program(model.program, path, layout=layout, header=header)
        return
    if path.suffix not in (".ane", "") or (path.exists() and not _replaceable(path)):
        raise GraphError(f"{path}: a bundle is a folder of its own called NAME.ane, and a single program a file called "
                         "NAME.hwx or NAME.anec")
    path.parent.mkdir(parents=True, exist_ok=True)
    files = model_files(model)
    write_folder(path, files | {SEAL: written_seal(files)}, replace=True)


def load_model(path: Path) -> CompiledModel:
    """Reads a bundle. FormatError names the file that is missing, malformed or other than it was written. The source
    graphs are read, and compared with their digests, when they are asked for."""
    model = read_model(Bundle(path).read)
    if not (path / FUNCTIONS).is_file():
        raise FormatError(f"{path / FUNCTIONS} is missing: the bundle does not hold its source graph")
    return model


@contextmanager
def _malformed() -> Iterator[None]:
    """A malformed manifest as a FormatError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"{MANIFEST} is incomplete or malformed: {type(error).__name__} {error}") from None


def _unused(name: str, functions: Sequence[CompiledModel]) -> str:
    """A name that none of the functions' begins with."""
    return next(longer for longer in (name + "_" * more for more in count())
                if not any(function.name.startswith(longer) for function in functions))


def _route_files(model: CompiledModel, name: str) -> dict[str, bytes]:
    """Where constants lie in the programs, of the functions of which that is known, as the file `name`."""
    from openane.compiler.patch.routes_json import write_routes

    known = {function.name: (function.patchable.routes, function.graph) for function in model.functions.values()
             if function.patchable is not None and not function.patchable.routes.refused}
    return {name: write_routes(known)} if known else {}


def _routes_name(target: str, several: bool) -> str:
    return f"routes/{target}.json" if several else ROUTES


def model_files(model: CompiledModel, graphs: bool = True,
                write: Callable[[Program], bytes] = write_hwx) -> dict[str, bytes]:
    """The files of a bundle by path, programs as `write` writes them; without `graphs` it has no source graphs, only
    the operations of host steps."""
    targets, several = model.targets, bool(model.other_targets)
    functions = tuple(function for each in targets.values() for function in each.functions.values())
    prefix = _unused("host", functions)
    held: dict[bytes, tuple[int, Program]] = {}
    documents: list[dict[str, Any]] = []
    hosted: list[Graph] = []
    for function in functions:
        own = [held.setdefault(write(program), (len(held), program))[0] for program in function.programs]
        steps = [step.graph(f"{prefix}{number}") for number, step in enumerate(function.host_steps, len(hosted))]
        documents.append(describe(function, own, [graph.name for graph in steps]))
        hosted += steps
    files, stated = _program_files(held, several or model.padding is not None)
    sources = [function.graph for function in model.functions.values()] if graphs else []
    files |= join_graphs([*sources, *hosted]) | write_digits(sources)
    manifest = {"format": "openane model", "version": SEVERAL if several else VERSION, "programs": len(held),
                **stated, "functions": documents}
    for target, each in targets.items():
        files |= _route_files(each, _routes_name(target, several))
    return files | {MANIFEST: json.dumps(manifest, indent=1).encode()}


def _program_files(held: Mapping[bytes, tuple[int, Program]],
                   shared: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of programs, given by their bytes with their numbers, and what the manifest says of them."""
    if not shared:
        return {whole_name(number): data for data, (number, _) in held.items()}, {}
    files, lacking = divided([(program, data) for data, (_, program) in held.items()])
    return files, {SHARED: lacking}


def read_model(read: Read, sources: Mapping[str, Source] | None = None,
               program: Callable[[Constants], Program] = read_hwx) -> CompiledModel:
    """The model in the files `read` gives, each program of them read by `program`. `sources` has the source graphs by
    function, or what reads them, where the files have none.

    FormatError when a file is missing or malformed.
    """
    document = _document(bytes(read(MANIFEST)))
    with _malformed():
        functions = list(document["functions"])
        programs = _programs(read, document, program)
        graphs = read_graphs(read, functions)
        targets: dict[str, list[CompiledModel]] = {}
        for function in functions:
            found = restore(function, programs, graphs, (sources or {}).get(str(function["name"])))
            targets.setdefault(found.target, []).append(found)
        several = document["version"] == SEVERAL
        if not several and len(targets) != 1:
            raise ValueError(f"{len(targets)} targets")
        first, *others = (_joined(_patchable(read, models, _routes_name(target, several)))
                          for target, models in targets.items())
        return first.with_targets(others)


def _joined(functions: Sequence[CompiledModel]) -> CompiledModel:
    """One model of its functions. ValueError where two have one name."""
    if len({function.name for function in functions}) < len(functions):
        raise ValueError("two functions of one name")
    return functions[0].with_functions(functions[1:])


def _total(document: Mapping[str, Any]) -> int:
    """How many programs a bundle has. ValueError where that cannot be."""
    total = int(document["programs"])
    if not 0 <= total <= sum(len(function["programs"]) for function in document["functions"]):
        raise ValueError(f"{total} programs")
    return total


def _programs(read: Read, document: Mapping[str, Any], program: Callable[[Constants], Program]) -> list[Program]:
    """The programs of a bundle. Constants that several have are one object."""
    programs: list[Program] = []
    for data, owner in program_data(read, _total(document), document.get(SHARED, {})):
        found = program(data)
        if owner < len(programs) and found.constants == programs[owner].constants:
            found = replace(found, constants=programs[owner].constants)
        programs.append(found)
    return programs


def _patchable(read: Read, models: Sequence[CompiledModel], name: str) -> list[CompiledModel]:
    """The functions with where their constants lie, which is read, from the file `name`, when it is asked for."""
    try:
        data = bytes(read(name))
    except (AbsentFile, KeyError):
        missing = Routes(refused=f"there is no {name} with it")
        return [replace(model, patchable=Patchable(missing, get_chip(model.target).limits)) for model in models]
    return [_with_routes(model, data) for model in models]


def _with_routes(model: CompiledModel, data: bytes) -> CompiledModel:
    limits = get_chip(model.target).limits
    return replace(model, patchable=Patchable(partial(_read_routes, data, model.name, model.programs, limits), limits))


def _read_routes(data: bytes, name: str, programs: Sequence[Program], limits: Limits) -> Routes:
    """See routes_json.read_routes."""
    from openane.compiler.patch.routes_json import read_routes

    return read_routes(data, name, programs, limits)


def _counts(model: CompiledModel) -> str:
    counts = (len(model.functions), "functions"), (len(model.programs), "programs"), \
        (len(model.host_operations), "host operations"), (len(model.targets), "targets")
    return ", ".join(f"{number} {noun}" for number, noun in counts)


def _replaceable(path: Path) -> bool:
    """Whether a bundle may be written over what is there: a bundle that holds nothing of anybody else's, or an empty
    folder."""
    if not path.is_dir():
        return False
    names = {name for name in os.listdir(path) if not name.startswith(".")}
    return not names or (MANIFEST in names and names <= set(OURS))


def _document(data: bytes) -> Mapping[str, Any]:
    if len(data) > LARGEST_MANIFEST:
        raise FormatError(f"{MANIFEST} is too large", expected=f"at most {LARGEST_MANIFEST} bytes", found=len(data))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{MANIFEST} is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") not in (VERSION, SEVERAL):
        found = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise FormatError(f"{MANIFEST} is of another version: {COMPILE_AGAIN}",
                          expected=f"{VERSION} or {SEVERAL}", found=found)
    return document
