"""The rooms of the source and who imports whom, read from the files, for the tests of the house and ARCHITECTURE.md."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "openane"

_FILES = {"registers", "engine", "chips", "program"}
_ENGINE = _FILES | {"formats"}
_GRAPH = {"graph", "ops", "passes"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "rounding": set(),
    "record_classes": set(),
    "wording": set(),
    "requested": set(),
    "version": set(),
    "configuration": set(),
    "archives": set(),
    "numpy_files": {"archives"},
    "registers": set(),
    "engine": {"registers"},
    "chips": {"registers", "engine"},
    "program": {"registers", "engine", "chips"},
    "formats": _FILES | {"requested", "wording"},
    "machine_code": {"cache"},
    "graph": {"formats"},  # MIL text names weights in blob files
    "ops": {"graph", "machine_code", *_FILES},
    "passes": {"graph", "ops", *_FILES},
    "cache": {"formats"},
    "compiler": {"cache", "machine_code", "requested", "timing"} | _GRAPH | _ENGINE,
    "importers": {"archives", "graph", "ops", "formats", "requested"},
    "simulator": {"cache", "machine_code", *_FILES},
    "timing": _FILES,
    "devices": {"archives", "simulator", "timing", "graph", "ops", *_ENGINE},
    "report": {"timing", "graph", "ops", "wording", *_ENGINE},
    "bench": {"compiler", "devices", "timing", *_GRAPH, *_ENGINE},
    "experiments": {"bench", "compiler", "devices", "simulator", "timing", *_GRAPH, *_ENGINE},
    "doctor": {"cache", "devices"},
    "checking": {"compiler", "devices", "report", "simulator", "wording", *_GRAPH, *_ENGINE},
    "quantization": {"importers", "compiler", "numpy_files", "report", *_GRAPH, *_ENGINE},
    "models": {"quantization", "importers", "compiler", "devices", *_GRAPH, *_ENGINE},
    "farm": {"cache", "checking", "compiler", "configuration", "importers", "quantization", "wording", *_GRAPH,
             *_ENGINE},
    "training": {"configuration", "importers", "compiler", "devices", "models", "numpy_files", *_GRAPH, *_ENGINE},
    "serving": {"models", "devices"},
    "loaded": {"compiler", "devices", "chips", "graph"},
    "torch": {"importers", "compiler", "devices", "loaded", "requested", "training", *_GRAPH},
    "jax": {"importers", "loaded", "requested"},
    "tinygrad": {"importers", "loaded", "requested"},
    "onnx_backend": {"importers", "compiler", "devices", "chips", *_GRAPH},
}
"""Room to the rooms it may import besides itself, `errors`, `record_classes` and `version`. `cli` and the package see
everything."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


class Import(NamedTuple):
    """`import module`, import_module("module"), or, with a name, one name of `from module import name`."""

    line: int
    module: str
    name: str = ""

    def of(self, known: Container[str] = ()) -> str:
        """The module that is imported: `from package import name` imports the module `name` where that is one of the
        `known`, else the package."""
        whole = f"{self.module}.{self.name}"
        return whole if self.name and (self.module == "openane" or whole in known) else self.module


def imported(tree: ast.Module) -> Iterator[Import]:
    """Every import, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: imports are absolute"
            yield from (Import(node.lineno, node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            text = next((n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)), "")
            yield Import(node.lineno, str(text))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Every import of a file of the source, which is read once."""
    return tuple(imported(tree_of(path)))


@cache
def all_imports() -> dict[str, tuple[Import, ...]]:
    """Those of every module of the source."""
    return {module_of(path): imports_of(path) for path in modules()}


def module_of(path: Path) -> str:
    return ".".join(("openane", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported_files(imports: Mapping[str, Iterable[Import]]) -> dict[str, set[str]]:
    """Module to the modules it imports anywhere: at the top, in functions, for type checking."""
    return {module: ({each.of(imports) for each in found} & imports.keys()) - {module}
            for module, found in imports.items()}
