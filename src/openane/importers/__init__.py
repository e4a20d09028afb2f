"""Other people's model files to graphs, told apart by content. What reads a format is imported when a file has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.graph import Graph
from openane.graph.budget import STATED
from openane.graph.given import how_from, kind_of
from openane.importers.shapes import Shapes, Values, agreeing
from openane.record_classes import many_records
from openane.requested import requested

if TYPE_CHECKING:
    from openane.importers.coreml import load_coreml
    from openane.importers.coreml.write import write_mlpackage
    from openane.importers.espresso import load_espresso
    from openane.importers.mil import load_mil
    from openane.importers.netplist import load_netplist, write_netplist
    from openane.importers.onnx import load_onnx
    from openane.importers.onnx.writing import write_onnx
    from openane.importers.stablehlo import load_stablehlo
    from openane.importers.torch import load_torch

Reader = Callable[[Path, Shapes, str | None], Graph]
ExportedProgram = Any
"""A torch.export.ExportedProgram, or what jax.export gives; neither states types without being installed."""

READABLE = ("ONNX models (.onnx), Core ML models (.mlpackage, .mlmodel, .mlmodelc with a model.mil or a "
            "model.espresso.net), espresso networks (.espresso.net), net.plist files (.plist), programs of "
            "torch.export (.pt2), StableHLO modules of jax.export (.mlir, .stablehlo, .mlirbc) and MIL programs "
            "(.mil)")
_OTHERS = {b"GGUF": "a language model in GGUF, which ane generate and ane serve run",
           b"openane ": "a program as text, which ane asm assembles"}
"""How files begin that are not models to compile, and what they are."""
_SNIFF = 4096
_DESCRIPTION = (b"\x0a", b"\x52", b"\x6a", b"\xa2")
"""First bytes of a Core ML model's description: inputs, outputs, states, functions."""
_STABLEHLO = (b"ML\xefR", b"#loc", b"module ", b"func.func ")
"""How modules in bytecode and in text begin."""
_EXPORTED = ("archive_format", "serialized_exported_program.json")
"""What is in the archives that torch.export writes."""


def load_graph(path: str | Path | ExportedProgram, shapes: Shapes | None = None, function: str | None = None,
               values: Values | None = None, limit: int | None = None) -> Graph:
    """The graph of a model file, or of a program of `torch.export` or `jax.export`. `shapes` fixes the shapes of inputs
    the file leaves symbolic, by input name; `function` chooses among the functions of a Core ML model or MIL program
    that has several (its default, or main); `values` makes constants of inputs of an ONNX model that decide how it runs
    (a sample rate); `limit` is how many bytes of constants may be computed from others, here and when the graph is
    compiled (default: 1 GiB, or 32 times those the file holds).

    FormatError for files that cannot be read or break their format, UnsupportedError for other kinds of file and for
    models outside what is supported, GraphError for inconsistent ones.
    """
    if not isinstance(path, str | Path) and (exported := _exported(path)) is not None:
        return _limited(exported(path, shapes or {}, function, limit), limit)
    if not isinstance(path, str | PathLike):
        raise UnsupportedError("the model", "a model is read from a file", found=kind_of(path),
                               remedy=f"give its path; {how_from(path)}")
    file = Path(path)
    kind, reader = _reader(file)
    try:
        if kind == "onnx":
            return _onnx(file, shapes or {}, function, values, limit)
        if kind in ("stablehlo", "torch"):
            reader = partial(_stablehlo if kind == "stablehlo" else _torch, limit=limit)
        if values:
            raise UnsupportedError("values of inputs", "only those of ONNX models can be fixed",
                                   found=", ".join(values), remedy="export the model without these inputs")
        return _limited(reader(file, shapes or {}, function), limit)
    except AneError as error:
        raise error.within(file) from None


def _reader(file: Path) -> tuple[str, Reader]:
    """The kind of a file, and what reads it."""
    try:
        kind = _kind(file)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror or error}") from None
    reader = READERS.get(kind)
    if reader is None:
        raise UnsupportedError(f"{file}", "this kind of model file is not readable", found=kind,
                               remedy=f"readable are {READABLE}; export the model to ONNX")
    return kind, reader


def _limited(graph: Graph, limit: int | None) -> Graph:
    """The graph with a limit of its own, if there is one."""
    return graph if limit is None else replace(graph, metadata={**graph.metadata, STATED: str(limit)})


def _onnx(file: Path, shapes: Shapes, function: str | None, values: Values | None = None, limit: int | None = None
          ) -> Graph:
    if function not in (None, "main"):
        raise GraphError(f"the model has no function {function!r}: ONNX models have one, main")
    import numpy as np

    from openane.importers.onnx import load_onnx

    fixed = {name: np.asarray(value) for name, value in (values or {}).items()}
    with many_records():
        return load_onnx(file, shapes, values=fixed, limit=limit)


def _mil(file: Path, shapes: Shapes, function: str | None) -> Graph:
    from openane.importers.mil import load_mil

    return load_mil(file, function=function or "main", shapes=shapes)


def _coreml(file: Path, shapes: Shapes, function: str | None) -> Graph:
    from openane.importers.coreml import load_coreml

    return load_coreml(file, shapes, function)


def _netplist(file: Path, shapes: Shapes, function: str | None) -> Graph:
    from openane.importers.netplist import load_netplist

    return _only_main(agreeing(load_netplist(file), shapes, "the net.plist"), function, "net.plist files")


def _espresso(file: Path, shapes: Shapes, function: str | None) -> Graph:
    from openane.importers.espresso import load_espresso

    return _only_main(load_espresso(file, shapes), function, "espresso models")


def _exported(source: object) -> Callable[[Any, Shapes, str | None, int | None], Graph] | None:
    """What reads a program of `torch.export` or `jax.export`; None for other objects."""
    from openane.importers.stablehlo import is_exported
    from openane.importers.torch import is_exported as is_program

    return _torch if is_program(source) else _stablehlo if is_exported(source) else None


def _stablehlo(source: Path | ExportedProgram, shapes: Shapes, function: str | None, limit: int | None = None) -> Graph:
    from openane.importers.stablehlo import load_stablehlo

    return _only_main(load_stablehlo(source, shapes, limit), function, "StableHLO modules")


def _torch(source: Path | ExportedProgram, shapes: Shapes, function: str | None, limit: int | None = None) -> Graph:
    from openane.importers.torch import load_torch

    return _only_main(load_torch(source, shapes, limit), function, "PyTorch programs")


def _only_main(graph: Graph, function: str | None, kind: str) -> Graph:
    if function not in (None, "main"):
        raise GraphError(f"the model has no function {function!r}: {kind} have one, main")
    return graph


READERS: Mapping[str, Reader] = {"onnx": _onnx, "mil": _mil, "coreml": _coreml, "netplist": _netplist,
                                 "espresso": _espresso, "stablehlo": _stablehlo, "torch": _torch}
"""How each kind of file is read."""


def _kind(file: Path) -> str:
    """A key of READERS, or a description of something else."""
    if file.is_dir():
        return folder_kind(file)
    if file.is_fifo():
        return "a pipe, which can be read once only: write it to a file first"
    with file.open("rb") as stream:
        head = stream.read(_SNIFF)
    if file.suffix in (".mlir", ".stablehlo", ".mlirbc") or head.lstrip().startswith(_STABLEHLO):
        return "stablehlo"
    if head.lstrip().startswith((b"program(", b"program (", b"//")):
        return "mil"
    if head.startswith((b"bplist0", b"pbze", b"<?xml", b"<!DOCTYPE plist", b"<plist")):
        return "espresso" if head.startswith(b"pbze") else "netplist"
    if head.lstrip().startswith(b"{"):
        return _json(file, head)
    if head.startswith(b"PK"):
        return _archive(file)
    named = {".onnx": "onnx", ".mil": "mil", ".mlmodel": "coreml", ".plist": "netplist"}.get(file.suffix)
    return named or _protobuf(head) or _other(file, head)


def _other(file: Path, head: bytes) -> str:
    """What a file is that no reader here is for, and what is."""
    known = next((text for beginning, text in _OTHERS.items() if head.startswith(beginning)), None)
    if known is not None:
        return known
    if file.suffix == ".safetensors" or head[8:9] == b"{":
        return "weights alone, without their network: name the folder that has config.json beside them"
    if not head:
        return "an empty file"
    if file.suffix == ".pt2":
        return "a .pt2 file that is no zip archive"
    return f"suffix {file.suffix!r}" if file.suffix else "no known beginning"


def _protobuf(head: bytes) -> str | None:
    """Which protobuf file it is that begins so. Both kinds open with field 1, a small number, then another of their
    message's fields. Behind it a Core ML model has a message, whose first byte is a field key, where an ONNX model has
    text."""
    if len(head) <= 8 or head[0] != 0x08 or head[1] >= 0x40:
        return None
    inside = head[next((at + 1 for at in range(3, 8) if head[at] < 0x80), 4):]
    if head[2] == 0x12 and inside[:1] in _DESCRIPTION:
        return "coreml"
    return "onnx" if head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42) else None


def _json(file: Path, head: bytes) -> str:
    """What a file in JSON holds, by its suffix or its keys."""
    for kind, suffix, key in (("netplist", ".plist", b'"Networks"'), ("espresso", ".net", b'"layers"')):
        if file.suffix == suffix or key in head:
            return kind
    return "JSON of another kind"


def _archive(file: Path) -> str:
    """What a zip archive holds, by its suffix or its entries."""
    if file.suffix == ".pt2":
        return "torch"
    try:
        with ZipFile(file) as archive:
            names = {Path(name).name for name in archive.namelist()}
    except (BadZipFile, NotImplementedError, ValueError):
        return "a broken zip archive"
    return "torch" if names.intersection(_EXPORTED) else "a zip archive of another kind"


def folder_kind(folder: Path) -> str:
    """A key of READERS for a folder that is a model, or a description of another one."""
    from openane.importers.espresso import FOLDER_NETWORK

    if (folder / "Manifest.json").is_file() or (folder / "model.mil").is_file():
        return "coreml"
    if (folder / FOLDER_NETWORK).is_file():
        return "espresso"
    if folder.suffix in (".mlpackage", ".mlmodelc"):
        return f"a {folder.suffix} folder without " + (
            "a Manifest.json" if folder.suffix == ".mlpackage" else f"a model.mil or {FOLDER_NETWORK}")
    return "a folder without a model: no Manifest.json, model.mil or config.json in it"


_HOMES = {"load_coreml": "openane.importers.coreml", "load_espresso": "openane.importers.espresso",
          "load_mil": "openane.importers.mil", "load_netplist": "openane.importers.netplist",
          "load_onnx": "openane.importers.onnx", "load_stablehlo": "openane.importers.stablehlo",
          "load_torch": "openane.importers.torch", "write_mlpackage": "openane.importers.coreml.write",
          "write_netplist": "openane.importers.netplist", "write_onnx": "openane.importers.onnx.writing"}

__getattr__ = requested(__name__, _HOMES)
__all__ = ["READABLE", "READERS", "load_coreml", "load_espresso", "load_graph", "load_mil", "load_netplist",
           "load_onnx", "load_stablehlo", "load_torch", "write_mlpackage", "write_netplist", "write_onnx"]
