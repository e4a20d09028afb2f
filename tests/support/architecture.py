"""The parts of ARCHITECTURE.md that are read from the source: who imports whom, the rooms, and two journeys.

`make docs` writes them anew, by `python -m support.architecture` in `tests`; a test holds that they are what it would
write. What the journeys say of a file is kept as it stands in ARCHITECTURE.md; a file that is new there gets the first
line of its docstring.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from support import journeys
from support.house import MAY_IMPORT, ROOT, SOURCE, all_imports, imported_files, tree_of

PAGE = ROOT / "ARCHITECTURE.md"
MOST_FILES = 35
"""Files a convolution may pass from `ane compile` to words."""
EVERYWHERE = {"errors", "record_classes", "version"}
BLOCK = "<!-- {name}: written by make docs -->\n{text}\n<!-- end of {name} -->"
LINE = re.compile(r"^\d+\. `(?P<file>[^`]+)`: (?P<says>.+)$", re.MULTILINE)

Graph = Mapping[str, set[str]]


def rooms() -> dict[str, set[str]]:
    """Every room to the rooms it imports, those that everybody may import apart."""
    return _folders(lambda parts: parts[1] if len(parts) > 1 else "")


def compiler_folders() -> dict[str, set[str]]:
    """The same of the folders of the compiler; the files that lie beside them by their names."""
    return _folders(lambda parts: parts[2] if parts[1:2] == ["compiler"] and len(parts) > 2 else "")


def _folders(folder: Callable[[list[str]], str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, others in imported_files(all_imports()).items():
        name = folder(module.split("."))
        if name and name != "__main__" and name not in EVERYWHERE:
            names = {folder(other.split(".")) for other in others}
            found.setdefault(name, set()).update(names - EVERYWHERE - {"", name})
    return found


def reached(graph: Graph, name: str) -> set[str]:
    """What one imports, and what that imports, and so on."""
    found: set[str] = set()
    waiting = set(graph[name])
    while waiting:
        found |= waiting
        waiting = {other for each in waiting for other in graph[each]} - found
    return found


def shortest(graph: Graph) -> dict[str, set[str]]:
    """The same graph without the arrows that follow from others."""
    return {name: {other for other in others if not any(other in reached(graph, each) for each in others - {other})}
            for name, others in graph.items()}


def layers(graph: Graph) -> list[list[str]]:
    """The lowest first: each has what imports only from below it."""
    left, below, found = set(graph), set[str](), list[list[str]]()
    while left:
        found.append(sorted(name for name in left if graph[name] <= below))
        if not found[-1]:
            raise ValueError(f"these import each other in a circle: {', '.join(sorted(left))}")
        below |= set(found[-1])
        left -= below
    return found


def picture(graph: Graph) -> str:
    """Arrows from those who import to those who are imported, as mermaid, and the layers as text."""
    arrows = [f"    {name} --> {other}" for name, others in sorted(shortest(graph).items()) for other in sorted(others)]
    rows = [f"{number}. {', '.join(f'`{name}`' for name in names)}" for number, names in enumerate(layers(graph), 1)]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```", "", "From the lowest layer up:", "", *rows])


def first_line(path: Path) -> str:
    """The first sentence, or line, of a module's docstring."""
    text = ast.get_docstring(tree_of(path / "__init__.py" if path.is_dir() else path)) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def table() -> str:
    """A row for every room: what it is for, and what it may import."""
    graph = rooms()
    rows = ["| Room | What it is for | What it may import |", "| --- | --- | --- |"]
    for name in (name for names in layers(graph) for name in names):
        path = SOURCE / name
        may = MAY_IMPORT.get(name)
        allowed = "everything" if may is None else ", ".join(f"`{each}`" for each in sorted(may)) or "nothing"
        rows.append(f"| `{name}` | {first_line(path if path.is_dir() else path.with_suffix('.py'))} | {allowed} |")
    return "\n".join(rows)


def journey(files: list[str], says: Mapping[str, str]) -> str:
    """A numbered line for every file."""
    return "\n".join(f"{number}. `{name}`: {says.get(name) or first_line(SOURCE / name)}"
                     for number, name in enumerate(files, 1))


def block(page: str, name: str) -> str:
    """What stands between the marks of a part."""
    begin, end = BLOCK.format(name=name, text="\0").split("\0")
    return page.partition(begin)[2].partition(end)[0]


def written(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts in place of those of their names."""
    for name, text in parts.items():
        begin, end = BLOCK.format(name=name, text="\0").split("\0")
        before, found, rest = page.partition(begin)
        assert found, f"ARCHITECTURE.md has no part {name!r}"
        page = before + begin + text + end + rest.partition(end)[2]
    return page


def parts(page: str) -> dict[str, str]:
    """All parts by name, as the source gives them."""
    with tempfile.TemporaryDirectory() as folder:
        passed = {name: journeys.measured(kind, Path(folder)) for name, kind in (("to words", "compile"),
                                                                                 ("to arithmetic", "run"))}
    known = {name: {found["file"]: found["says"] for found in LINE.finditer(block(page, name))} for name in passed}
    return {"rooms": picture(rooms()), "compiler": picture(compiler_folders()), "table": table(),
            **{name: journey(files, known[name]) for name, files in passed.items()}}


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), parts(PAGE.read_text())))
