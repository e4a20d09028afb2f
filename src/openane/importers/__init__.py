"""Other people's model files to graphs, told apart by content: ONNX models and MIL programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.graph import Graph
from openane.importers.mil import load_mil
from openane.importers.onnx import load_onnx

READABLE = "ONNX models (.onnx) and MIL programs (.mil)"
_SNIFF = 4096


def load_graph(path: str | Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph of a model file. `shapes` fixes the shapes of inputs the file leaves symbolic, by input name.

    FormatError for files that cannot be read or break their format, UnsupportedError for other kinds of file and for
    models outside what is supported, GraphError for inconsistent ones.
    """
    file = Path(path)
    try:
        kind = _kind(file)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror or error}") from None
    if kind in ("onnx", "mil"):
        try:
            return load_onnx(file, shapes) if kind == "onnx" else _with_shapes(load_mil(file), shapes or {})
        except AneError as error:
            raise error.within(file) from None
    raise UnsupportedError(f"{file}", "this kind of model file is not readable", found=kind,
                           remedy=f"readable are {READABLE}; export the model to ONNX")


def _kind(file: Path) -> str:
    """onnx, mil, or a description of something else."""
    if file.is_dir():
        return "a folder"
    with file.open("rb") as stream:
        head = stream.read(_SNIFF)
    if head.lstrip().startswith((b"program(", b"program (", b"//")):
        return "mil"
    if file.suffix in (".onnx", ".mil"):
        return file.suffix[1:]
    # An ONNX file opens with field 1 (ir_version, a small number), then another of ModelProto's fields.
    if len(head) > 2 and head[0] == 0x08 and head[1] < 0x40 and head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42):
        return "onnx"
    return f"suffix {file.suffix!r}" if file.suffix else "no known beginning"


def _with_shapes(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The graph itself when `shapes` agrees with it: MIL programs state their shapes."""
    known = {value.name: value.shape for value in graph.inputs}
    for name, shape in shapes.items():
        if known.get(name) != tuple(shape):
            raise GraphError(f"shape {list(shape)} for input {name!r}: the program states "
                             f"{', '.join(f'{key} {list(extents)}' for key, extents in known.items())}")
    return graph


__all__ = ["READABLE", "load_graph", "load_mil", "load_onnx"]
