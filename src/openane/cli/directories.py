"""A model's directory, as Hugging Face's libraries write it, on the command line: its functions as graphs.

The directory states no shapes, so --shape takes names of what a family reads: tokens, samples, or an image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.graph import Graph

Extents = Sequence[int | tuple[int, ...]]
"""A shape whose dimensions may have alternatives."""
SHAPES = "tokens=128, tokens={32,64,128}, samples=160000 or image=224x224"


def is_directory(path: Path) -> bool:
    """Whether a path is a model's directory, and no bundle or model file in a folder."""
    return path.is_dir() and any((path / name).is_file() for name in ("config.json", "modules.json"))


def directory_graphs(path: Path, shapes: Mapping[str, Extents], names: Sequence[str]) -> list[Graph]:
    """The functions of a directory's model, or those that are named. UnsupportedError for other names and shapes;
    errors as for `pretrained_graphs`."""
    from openane.models.pretrained import pretrained_graphs

    lengths, image = _lengths(shapes), _image(shapes.get("image"))
    graphs = {graph.name: graph for graph in pretrained_graphs(path, lengths, image)}
    unknown = next((name for name in names if name not in graphs), None)
    if unknown is not None:
        raise UnsupportedError(f"--function {unknown}", "the model has no such function", found=unknown,
                               limit=", ".join(graphs))
    return [graphs[name] for name in names or graphs]


def directory_lines(path: Path) -> list[str]:
    """What the directory's family leaves to the host besides operations of the graph."""
    from openane.models.pretrained import family_of

    return [f"  on the host, before and behind: {line}" for line in family_of(path).host]


def _lengths(shapes: Mapping[str, Extents]) -> list[int] | None:
    unknown = next((name for name in shapes if name not in ("tokens", "samples", "image")), None)
    if unknown is not None:
        raise UnsupportedError(f"--shape {unknown}", "a model's directory has no such shape", found=unknown,
                               limit=SHAPES)
    found = [length for name in ("tokens", "samples") for extent in shapes.get(name, ())
             for length in ([extent] if isinstance(extent, int) else extent)]
    return found or None


def _image(extents: Extents | None) -> tuple[int, int] | None:
    if extents is None:
        return None
    whole = [extent for extent in extents if isinstance(extent, int)]
    if len(extents) != 2 or len(whole) != 2:
        raise UnsupportedError("--shape image", "an image has one height and one width", found=list(extents),
                               limit="image=224x224")
    return whole[0], whole[1]
