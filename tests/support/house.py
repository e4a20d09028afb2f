"""The rooms of the source and who imports whom, read from the files, for the tests of the house and ARCHITECTURE.md."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

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


def imported(tree: ast.Module, known: Container[str] = ()) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, those inside functions and import_module("...") included. `from package import
    name` is an import of the module `name` where that is one of the `known`, else of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: imports are absolute"
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                yield node.lineno, name if node.module == "openane" or name in known else node.module or ""
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            text = next((n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)), "")
            yield node.lineno, str(text)


def module_of(path: Path) -> str:
    return ".".join(("openane", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported_files(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Module to the modules it imports anywhere: at the top, in functions, for type checking."""
    return {module: ({name for _, name in imported(tree, trees)} & trees.keys()) - {module}
            for module, tree in trees.items()}
