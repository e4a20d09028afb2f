"""Compiled models on disk.

A bundle is a directory `NAME.ane`: `manifest.json` (ports, steps, report), `programs/0.hwx`..., the source graph as
`model.mil` and its constants in `weights/weight.bin`. A model that is one engine program can also be a single `.hwx`
or `.anec` file, which holds neither the report nor the source graph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.compiler.model import Entry, Model, Port, Step, Where
from openane.engine import DType
from openane.errors import FormatError, GraphError
from openane.formats import read_hwx, save_program, write_hwx
from openane.formats.files import write_atomically
from openane.graph import NUMPY_TYPES
from openane.graph.mil import parse_mil, print_mil
from openane.program import Layout

VERSION = 1
MANIFEST = "manifest.json"
GRAPH = "model.mil"
WEIGHTS = "weights/weight.bin"
LARGEST_MANIFEST = 1 << 26
PROGRAM_SUFFIXES = (".hwx", ".anec")


def save_model(model: Model, path: Path, layout: str = "macos26", header: int = 0x1000) -> None:
    """Writes `model` to `path`; see Model.save. GraphError when a single file cannot hold it."""
    if path.suffix in PROGRAM_SUFFIXES:
        if not model.plain:
            raise GraphError(f"{path.name}: a {path.suffix} file holds exactly one engine program and no host "
                             f"operations; this model has {len(model.programs)} and {len(model.host_operations)}: "
                             "save a bundle, NAME.ane")
        save_program(model.program, path, layout=layout, header=header)
        return
    if path.suffix not in (".ane", "") or (path.exists() and not _replaceable(path)):
        raise GraphError(f"{path}: a bundle is a folder of its own called NAME.ane, and a single program a file called "
                         "NAME.hwx or NAME.anec")
    (path / "programs").mkdir(parents=True, exist_ok=True)
    for stale in (path / "programs").glob("*.hwx"):
        stale.unlink()
    for number, program in enumerate(model.programs):
        write_atomically(path / "programs" / f"{number}.hwx", write_hwx(program))
    text, weights = print_mil(model.graph)
    write_atomically(path / GRAPH, text.encode())
    if weights:
        (path / WEIGHTS).parent.mkdir(exist_ok=True)
        write_atomically(path / WEIGHTS, weights)
    write_atomically(path / MANIFEST, json.dumps(_manifest(model), indent=1).encode())


def _replaceable(path: Path) -> bool:
    """Whether a bundle may be written over what is there: a bundle, or an empty folder."""
    return path.is_dir() and ((path / MANIFEST).is_file() or not any(path.iterdir()))


def load_model(path: Path) -> Model:
    """Reads a bundle. FormatError names the file that is missing or malformed."""
    document = _document(path / MANIFEST)
    try:
        inputs, outputs = (tuple(_read_port(port) for port in document[side]) for side in ("inputs", "outputs"))
        steps = tuple(Step(int(step["program"])) for step in document["steps"])
        report = tuple(Entry(str(e["operation"]), Where(e["where"]), str(e["reason"]), tuple(map(int, e["tasks"])))
                       for e in document["report"])
        name, target, count = str(document["name"]), str(document["target"]), int(document["programs"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{MANIFEST} is incomplete or malformed: {type(error).__name__} {error}") from None
    if not 0 <= count <= len(steps) or any(not 0 <= step.program < count for step in steps):
        raise FormatError(f"{MANIFEST}: a step names a program that is not there", expected=f"0 to {count - 1}",
                          found=[step.program for step in steps])
    programs = tuple(read_hwx(_bytes(path / "programs" / f"{number}.hwx")) for number in range(count))
    for program in programs:
        known = {buffer.name for buffer in program.buffers}
        for port in (*inputs, *outputs):
            if port.name not in known:
                raise FormatError(f"port {port.name!r} has no buffer in the program", expected=sorted(known),
                                  found=port.name)
    return Model(name, target, inputs, outputs, programs, steps, report, _graph(path))


def _graph(path: Path) -> Any:
    def blobs(file: str, offset: int) -> bytes | memoryview:
        from openane.formats.blob import read_blob
        return read_blob(_bytes(path / WEIGHTS), offset)[1]

    try:
        text = _bytes(path / GRAPH).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{GRAPH} is not UTF-8 text", offset=error.start) from None
    return parse_mil(text, blobs)


def _manifest(model: Model) -> dict[str, Any]:
    return {
        "format": "openane model", "version": VERSION, "name": model.name, "target": model.target,
        "programs": len(model.programs), "steps": [{"program": step.program} for step in model.steps],
        "inputs": [_write_port(port) for port in model.inputs],
        "outputs": [_write_port(port) for port in model.outputs],
        "report": [{"operation": e.operation, "where": str(e.where), "reason": e.reason, "tasks": list(e.tasks)}
                   for e in model.report],
    }


def _write_port(port: Port) -> dict[str, Any]:
    layout = port.layout
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape),
            "layout": {"shape": list(layout.shape), "strides": list(layout.strides), "dtype": str(layout.dtype),
                       "interleave": layout.interleave}}


def _read_port(port: Mapping[str, Any]) -> Port:
    layout = port["layout"]
    shape, strides = (tuple(int(v) for v in layout[key]) for key in ("shape", "strides"))
    logical = tuple(int(v) for v in port["shape"])
    if len(shape) != 5 or len(strides) != 5 or min(shape) < 1 or min(logical, default=1) < 1:
        raise ValueError(f"port {port['name']!r} has no proper layout")
    if port["dtype"] not in NUMPY_TYPES:
        raise ValueError(f"port {port['name']!r} has dtype {port['dtype']!r}")
    surface = Layout(shape, strides, DType(layout["dtype"]), int(layout["interleave"]))
    return Port(str(port["name"]), logical, str(port["dtype"]), surface)


def _document(path: Path) -> Mapping[str, Any]:
    data = _bytes(path)
    if len(data) > LARGEST_MANIFEST:
        raise FormatError(f"{MANIFEST} is too large", expected=f"at most {LARGEST_MANIFEST} bytes", found=len(data))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{MANIFEST} is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise FormatError(f"{MANIFEST} is of another version", expected=VERSION, found=found)
    return document


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None


