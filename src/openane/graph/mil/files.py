"""MIL text in a file, its weights in another beside it."""

from __future__ import annotations

from pathlib import Path

from openane.errors import GraphError
from openane.formats.files import write_atomically
from openane.graph.graph import Graph
from openane.graph.mil.printer import print_mil


def write_mil(graph: Graph, file: Path, dialect: str = "ios18", weights: str = ".weights.bin") -> None:
    """Writes `graph` to `file`, and what its text keeps elsewhere to a file beside it, called as `file` is with
    `weights` as its suffix. The text is there only when its weights are.

    GraphError as of print_mil, and for a name that is not text in UTF-8, as the text names its weights; OSError.
    """
    beside = file.with_name(f"{file.stem}{weights}")
    try:
        beside.name.encode()
    except UnicodeEncodeError:
        raise GraphError(f"{file}: MIL text names its weights after itself, and this name is not text in "
                         "UTF-8") from None
    text, data = print_mil(graph, dialect, f"@model_path/{beside.name}")
    if data:
        write_atomically(beside, data)
    write_atomically(file, text.encode())
