"""Compiled models kept by everything they depend on: graph, weights, target, options and the compiler itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from openane import __version__
from openane.cache import DIGEST, Cache
from openane.compiler.bundle import model_files, read_model
from openane.compiler.model import Model
from openane.compiler.pipeline import compile
from openane.compiler.plain import read_plain, write_plain
from openane.errors import AneError
from openane.graph import Graph, Value

ROOMS = ("registers", "engine", "chips", "program", "formats", "graph", "ops", "passes", "compiler")
"""What a compilation depends on, of this package."""


def cached(graph: Graph, target: str, allow_host: bool, samples: Mapping[str, np.ndarray] | None,
           folder: Path | None) -> Model:
    """The compiled graph, from the cache in `folder` (None: the user's own) if it is there. Errors are those of
    `compile`; a cache that cannot be read or written is done without."""
    try:
        kept = Cache(folder)
    except OSError:
        return compile(graph, target, allow_host, samples=samples)
    key = model_key(graph, target, allow_host, samples)
    files = kept.get(key)
    if files is not None:
        try:
            return read_model(files.__getitem__, {graph.name: graph}, read_plain)
        except (AneError, KeyError):
            kept.drop(key)
    model = compile(graph, target, allow_host, samples=samples)
    kept.put(key, model_files(model, graphs=False, write=write_plain), f"{graph.name} for {target}")
    return model


def model_key(graph: Graph, target: str, allow_host: bool, samples: Mapping[str, np.ndarray] | None = None) -> str:
    """A digest of everything the compiled model depends on, in hexadecimal. Every constant is read once."""
    said: list[object] = [__version__, compiler_digest(), target, allow_host, samples is not None]
    arrays: list[np.ndarray] = []
    for name, array in sorted((samples or {}).items()):
        said += [name, array.dtype.str, array.shape]
        arrays.append(array)
    _tell(graph, said, arrays)
    text = repr(said).encode(errors="surrogatepass")
    digest = hashlib.blake2b(b"%d:" % len(text) + text, digest_size=DIGEST)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@cache
def compiler_digest() -> str:
    """A digest of the compiler's own source, so that a changed compiler takes nothing an earlier one made."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    root = Path(__file__).parents[1]
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(data)}:".encode(errors="surrogateescape") + data)
    return digest.hexdigest()


def _tell(graph: Graph, said: list[object], arrays: list[np.ndarray]) -> None:
    """Says what no other graph is: values are numbered as they occur, and what each is said once."""
    numbers: dict[int, int] = {}

    def value(each: Value) -> object:
        known = numbers.get(id(each))
        if known is not None:
            return known
        numbers[id(each)] = len(numbers)
        data = each.data
        if isinstance(data, np.ndarray):
            arrays.append(data)
            return each.name, each.dtype, each.shape, data.dtype.str, data.shape
        return each.name, each.dtype, each.shape, data

    said += [graph.name, sorted(graph.metadata.items()), [value(each) for each in graph.inputs]]
    for node in graph.nodes:
        said.append((node.op, node.name, node.source,
                     [(key, [value(each) for each in operand] if isinstance(operand, tuple) else value(operand))
                      for key, operand in sorted(node.operands.items())], [value(each) for each in node.outputs]))
    said.append([value(each) for each in graph.outputs])
