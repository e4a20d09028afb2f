"""A model that was compiled before, from the same file with the same options: found without importing the file."""

from __future__ import annotations

from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from openane.chips.machines import target as generation_of
from openane.cli.model_options import reading
from openane.compiler.file_cache import file_key, recalled, remember

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.compiler.precision import Samples
    from openane.graph import Graph


class Recall:
    """What the cache remembers of a model's file and the options of `model_options`."""

    def __init__(self, path: Path, options: Namespace, target: str) -> None:
        """`target` is a machine, chip or generation. Nothing is remembered without the cache, and with samples."""
        self._path, self._options, self._target = path, options, target
        said = (options.shape, options.value, options.function, generation_of(target).name, options.allow_host,
                options.precision, options.optimise, options.limit)
        self._key = None if options.no_cache or options.sample else file_key(path, said)

    def model(self) -> Model | None:
        """The model, if the cache has it; its graph is read from the file when it is asked for."""
        return None if self._key is None else recalled(self._key, cache(self._graph))

    def keep(self, graph: Graph, samples: Samples | None) -> None:
        """Remembers what was just compiled of the file's graph, where the cache holds it."""
        from openane.compiler.cache import model_key
        from openane.ops.optimisation import with_level

        if self._key is not None:
            options = self._options
            key = model_key(with_level(graph, options.optimise), generation_of(self._target).name, options.allow_host,
                            samples, precision=options.precision)
            remember(self._path, self._key, key, graph.name)

    def _graph(self) -> Graph:
        from openane.compiler.precision import with_functions
        from openane.importers import load_graph
        from openane.ops.optimisation import with_level

        options = self._options
        graph = load_graph(self._path, function=options.function, **reading(options))
        return with_functions(with_level(graph, options.optimise), options.precision)
