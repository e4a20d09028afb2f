"""MIL programs on disk: the text, the weight files beside it, and a check against what each operation states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.formats.blob import read_blob
from openane.graph import Data, Graph, Node, TensorType, Value, numpy_type
from openane.graph.graph import substituted
from openane.graph.mil import Blobs, parse_mil
from openane.graph.states import READ, WRITERS
from openane.importers.computed_slices import as_vectors, begins_late, joins_numbers, with_lookups
from openane.importers.files import read_file
from openane.ops import get_op
from openane.ops.build import standing_for
from openane.ops.evaluate import evaluate_node
from openane.ops.operands import result_types

MODEL_PATH = "@model_path/"
"""How MIL text names the folder the program lies in."""

SMALL = 1 << 12
"""Most elements of results that are computed while a program with open dimensions is read."""


def load_mil(source: str | Path, weights: str | Path | None = None, function: str = "main",
             shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph of a MIL program: `source` is a file, or the text itself (a str with a line break or a bracket).
    `shapes` fixes inputs whose dimensions are open, by name.

    Weight files are looked for in folder `weights` (by default the one the program lies in), first under the path the
    text gives, then under its last component. Every node whose operation is known is checked: its operands must fit
    and give the types the text declares. FormatError, GraphError, UnsupportedError.
    """
    if isinstance(source, str) and any(character in source for character in "\n{("):
        text, folder = source, Path(weights) if weights is not None else None
    else:
        text = _read_text(Path(source))
        folder = Path(weights) if weights is not None else Path(source).parent
    blobs = None if folder is None else weight_files(folder)
    graph = with_lookups(parse_mil(text, blobs, function, shapes, infer_types))
    check_types(graph.nodes)
    return graph


def weight_files(folder: Path) -> Blobs:
    """Blobs of the weight files in `folder`; each file is read once. FormatError for paths that leave the folder and
    for files that cannot be read."""
    files: dict[str, bytes] = {}

    def find(path: str, offset: int) -> tuple[str, memoryview]:
        if path not in files:
            files[path] = _read_weights(folder, path)
        return read_blob(files[path], offset)

    return find


def _read_weights(folder: Path, path: str) -> bytes:
    relative = PurePosixPath(path.removeprefix(MODEL_PATH))
    if relative.is_absolute() or ".." in relative.parts or not relative.name or "\0" in path:
        raise FormatError("weight file outside the model's folder", expected=f"{MODEL_PATH}NAME", found=path)
    candidates = [folder / relative, folder / relative.name]
    try:
        chosen = next((candidate for candidate in candidates if candidate.is_file()), None)
        if chosen is None:
            raise FormatError(f"weight file {path!r} is missing", expected=str(candidates[0]), found="nothing")
    except OSError as error:
        raise FormatError(f"weight file {path!r} cannot be read: {error.strerror or error}") from None
    return read_file(chosen, "weight file")


def _read_text(path: Path) -> str:
    try:
        return read_file(path, "program").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("MIL text is not UTF-8", offset=error.start, expected="UTF-8", found=error.reason) from None


def check_types(nodes: Iterable[Node]) -> None:
    """GraphError for the first node of a known operation whose operands do not fit, or that declares other result
    types than they give. Operations nobody here describes are left to the compiler to refuse."""
    known: dict[int, Value] = {}  # results of constexpr_* operations, which compilation computes, as constants
    for node in nodes:
        try:
            op = get_op(node.op)
        except UnsupportedError:
            continue
        operands = {key: tuple(known.get(id(value), value) for value in operand) if isinstance(operand, tuple)
                    else known.get(id(operand), operand) for key, operand in node.operands.items()}
        try:
            found = result_types(op, operands)
        except GraphError as error:
            raise GraphError(f"{node.label}: {str(error).removeprefix(f'{node.op}: ')}") from None
        declared = tuple(value.type for value in node.outputs)
        if found != declared:
            raise GraphError(f"{node.label}: declares {_list(declared)}, its operands give {_list(found)}")
        if node.op.startswith("constexpr_"):
            known |= standing_for(node.outputs)


def infer_types(node: Node) -> list[tuple[TensorType, Data]]:
    """Types of a node's results, with their data where that is small and known: shapes, and what is computed from them.
    UnsupportedError for an operation without a description, GraphError when its operands do not fit."""
    if node.op in (READ, *WRITERS):
        return [] if node.op == WRITERS[0] else [(next(iter(node.values())).type, None)]
    if joins_numbers(node):
        node = as_vectors(node, computed=True)
    types, x = _types(node), node.get("x")
    if node.op == "shape" and x is not None:
        return [(types[0], np.array(x.shape, numpy_type(types[0].dtype)))]
    if not all(map(_is_small, node.values())) or any(each.elements > SMALL for each in types):
        return [(each, None) for each in types]
    try:
        arrays = evaluate_node(node, {})
    except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise GraphError(f"{node.label}: cannot be computed: {error}") from error
    return [(each, np.asarray(array, numpy_type(each.dtype)).reshape(each.shape))
            for each, array in zip(types, arrays, strict=True)]


def _as_if_known(node: Node) -> Node:
    """A slice as if it began at 0: of so many elements, wherever it begins."""
    begin = node["begin"]
    zeros = np.zeros(begin.shape, numpy_type(begin.dtype))
    return substituted(node, {id(begin): Value(begin.name, begin.type, zeros)})


def _is_small(value: Value) -> bool:
    return value.constant and (isinstance(value.data, str) or value.type.elements <= SMALL)


def _types(node: Node) -> Sequence[TensorType]:
    if begins_late(node) and node.op == "slice_update":
        return (node["x"].type,)
    if begins_late(node) and node.op == "slice_by_size":
        node = _as_if_known(node)
    op = get_op(node.op)
    try:
        return result_types(op, node.operands)
    except GraphError as error:
        raise GraphError(f"{node.label}: {str(error).removeprefix(f'{node.op}: ')}") from None


def _list(types: Iterable[object]) -> str:
    return ", ".join(map(str, types)) or "nothing"
