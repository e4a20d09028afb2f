"""Compiled models kept by everything they depend on: graph, weights, target, options and the compiler itself."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from openane.cache import DIGEST, SIZE_LIMIT, Cache
from openane.cache import source_digest as source_digest
from openane.compiler.artifact.bundle import model_files, read_model
from openane.compiler.artifact.cache_program import read_cached, write_cached
from openane.compiler.model import CompiledModel
from openane.compiler.partition.hosting import AllowHost, HostPolicy
from openane.compiler.precision import PrecisionMode, Samples, precise, several, with_functions
from openane.errors import AneError
from openane.graph import Graph, RoundedConstant, Value
from openane.ops.contiguous import contiguous
from openane.version import __version__

ROOMS = ("registers", "engine", "chips", "program", "formats", "graph", "ops", "passes", "timing", "compiler")
"""What a compilation depends on, of this package."""
OTHER = "other"
"""An empty file of an entry whose graph is not the one that was to be compiled, but what a precision made of it."""
SAID = "said.json"
"""The metadata of the graph that was compiled, where it is the one that was to be compiled in all else."""
CONSTANTS = "constants/{}"
"""The constants of a program whose entry is to be mapped."""


def cached(graph: Graph, target: str, allow_host: AllowHost, samples: Samples | None, folder: Path | None,
           precision: str = PrecisionMode.AS_IS) -> CompiledModel:
    """The compiled graph, from the cache in `folder` (None: the user's own) if it is there. Errors are those of
    `compile`; a cache that cannot be read or written is done without."""
    try:
        kept = Cache(folder)
    except OSError:
        return _compiled(precise(graph, precision, samples), target, allow_host, samples)
    key = model_key(graph, target, allow_host, samples, precision=precision)
    graph = with_functions(graph, precision)
    files = kept.get(key)
    if files is not None:
        try:
            own = {} if OTHER in files else {graph.name: replace(graph, metadata=json.loads(bytes(files[SAID])))}
            return read_model(files.__getitem__, own, read_cached)
        except (AneError, KeyError, ValueError):
            kept.drop(key)
    made = precise(graph, precision, samples)
    model = _compiled(made, target, allow_host, samples)
    other = made.nodes is not graph.nodes
    said = {OTHER: b""} if other else {SAID: json.dumps(dict(made.metadata)).encode()}
    kept.put(key, model_files(model, graphs=other, write=write_cached) | said, f"{graph.name} for {target}")
    return model


def _fresh(graph: Graph, target: str, allow_host: AllowHost = False,
           sample: Mapping[str, np.ndarray] | None = None) -> CompiledModel:
    """The graph compiled. What compiles is imported here, since an entry of the cache needs none of it."""
    from openane.compiler.pipeline import compile_graph

    return compile_graph(graph, target, allow_host, samples=sample)


def _compiled(graph: Graph, target: str, allow_host: AllowHost, samples: Samples | None) -> CompiledModel:
    return _fresh(graph, target, allow_host, next(iter(several(samples)), None))


class MappedModels:
    """Compiles graphs to models whose constants are mapped from files rather than held in memory: those of the compile
    cache, or of a folder of its own, which has no name for them once they are mapped. `close` it when no model of it
    is loaded any more."""

    def __init__(self, kept: bool | str | Path, size: int = 0) -> None:
        """`kept`: the cache (True: the user's own), or False. What is to be `size` bytes, and would leave little room
        in the cache, is not kept there."""
        self._own: tempfile.TemporaryDirectory[str] | None = None
        try:
            if not kept or size > SIZE_LIMIT // 2:
                raise OSError
            self._cache = Cache(None if kept is True else Path(kept))
        except OSError:
            self._own = tempfile.TemporaryDirectory(prefix="openane-", ignore_cleanup_errors=True)
            self._cache = Cache(Path(self._own.name), sys.maxsize, durable=False)

    def compile(self, graph: Graph, target: str) -> CompiledModel:
        """The compiled graph, from the cache if it is there. It remembers nothing for new weights. Errors are those of
        `compile`; where nothing can be written the model holds its constants."""
        key = model_key(graph, target, False, kind="mapped")
        found = self._read(key, {graph.name: graph})
        return found if found is not None else self._compiled(graph, target, key)

    def compile_said(self, said: str, make: Callable[[], Graph], target: str) -> CompiledModel:
        """As `compile`, of the graph `make` gives, which is not made where the cache has the model: `said` tells
        everything the graph depends on. The model is then without its graph."""
        text = repr((said, __version__, compiler_digest(), target)).encode(errors="surrogatepass")
        key = hashlib.blake2b(text, digest_size=DIGEST, person=b"said").hexdigest()
        found = self._read(key, {})
        return found if found is not None else self._compiled(make(), target, key)

    def close(self) -> None:
        """Removes its own folder. Closing twice does nothing."""
        if self._own is not None:
            self._own.cleanup()

    def _compiled(self, graph: Graph, target: str, key: str) -> CompiledModel:
        model = replace(_fresh(graph, target), known_programs=(), patchable=None)
        bare = replace(model, programs=tuple(replace(program, constants=b"") for program in model.programs))
        files: dict[str, bytes | memoryview] = {**model_files(bare, graphs=False, write=write_cached)}
        files |= {CONSTANTS.format(number): program.constants for number, program in enumerate(model.programs)}
        if not self._cache.put(key, files, f"{graph.name} for {target}"):
            return model
        del files, model  # the same bytes again, before they are mapped
        return self._read(key, {graph.name: graph}) or _fresh(graph, target)

    def _read(self, key: str, graphs: Mapping[str, Graph]) -> CompiledModel | None:
        files = self._cache.mapped(key)
        if files is None:
            return None
        try:
            model = read_model(lambda name: bytes(files[name]), graphs, read_cached)
            programs = tuple(replace(program, constants=files[CONSTANTS.format(number)])
                             for number, program in enumerate(model.programs))
        except (AneError, KeyError):
            self._cache.drop(key)
            return None
        if self._own is not None:
            self._cache.drop(key)  # what is mapped stays, and a process that is killed leaves no large files
        return replace(model, programs=programs, patchable=None)


def model_key(graph: Graph, target: str, allow_host: AllowHost, samples: Samples | None = None,
              kind: str = "", precision: str = PrecisionMode.SAFE) -> str:
    """A digest of everything the compiled model depends on, in hexadecimal, and of the `kind` of entry it is kept as.
    Every constant is read once."""
    allowed = HostPolicy.of(allow_host).said
    said: list[object] = [kind, __version__, compiler_digest(), target, allowed, precision, len(several(samples))]
    arrays: list[np.ndarray] = []
    for sample in several(samples):
        for name, array in sorted(sample.items()):
            said += [name, array.dtype.str, array.shape]
            arrays.append(array)
    _tell(graph, said, arrays)
    text = repr(said).encode(errors="surrogatepass")
    digest = hashlib.sha256(b"%d:" % len(text) + text)
    for array in arrays:
        digest.update(contiguous(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def compiler_digest() -> str:
    """A digest of the compiler's own source, so that a changed compiler takes nothing an earlier one made."""
    return source_digest(ROOMS)


def _tell(graph: Graph, said: list[object], arrays: list[np.ndarray]) -> None:
    """Says what no other graph is: values are numbered as they occur, and what each is said once."""
    numbers: dict[int, int] = {}

    def value(each: Value) -> object:
        known = numbers.get(id(each))
        if known is not None:
            return known
        numbers[id(each)] = len(numbers)
        if isinstance(each, RoundedConstant):  # its digits say what its numbers are
            arrays.append(each.digits())
            return RoundedConstant.__name__, each.name, each.dtype, each.shape
        data = each.data
        if isinstance(data, np.ndarray):
            arrays.append(data)
            return Value.__name__, each.name, each.dtype, each.shape, data.dtype.str, data.shape
        return each.name, each.dtype, each.shape, data

    said += [graph.name, sorted(graph.metadata.items()), [value(each) for each in graph.inputs]]
    for node in graph.nodes:
        said.append((node.op, node.name, node.source,
                     [(key, [value(each) for each in operand] if isinstance(operand, tuple) else value(operand))
                      for key, operand in sorted(node.operands.items())], [value(each) for each in node.outputs]))
    said.append([value(each) for each in graph.outputs])
