"""How much care a model's numbers get, beside its speed.

- `as-is`: tensors are what the model says; functions are as its importer asks (accuracy.FUNCTIONS).
- `safe`: numbers that leave the engine's range on samples are moved into it by powers of two (passes.rescale).
- `fast`: as-is, and every function is one table, as in programs of Apple's compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from openane.compiler.inspect.fp16_concerns import drawn
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.accuracy import FUNCTIONS
from openane.ops.halves import RESCALED
from openane.passes.rescale import Rescaled, rescale

Samples = Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]]
"""One sample, or several."""


class PrecisionMode(StrEnum):
    """What `openane.compile` and --precision take."""

    AS_IS = "as-is"
    SAFE = "safe"
    FAST = "fast"


def precise(graph: Graph, precision: str, samples: Samples | None = None) -> Graph:
    """The graph that is compiled in place of one, `samples` (arrays by input name) drawn where none are given.
    UnsupportedError for a precision there is not; GraphError when samples do not fit the inputs."""
    if precision not in set(PrecisionMode):
        raise UnsupportedError(f"precision {precision!r}", "is none there is", limit=", ".join(PrecisionMode),
                               found=precision)
    if precision == PrecisionMode.FAST and FUNCTIONS in graph.metadata:
        return replace(graph, metadata={key: text for key, text in graph.metadata.items() if key != FUNCTIONS})
    if precision != PrecisionMode.SAFE:
        return graph
    given = [samples] if isinstance(samples, Mapping) else samples or [drawn(graph)]
    made = rescale(graph, given)
    return made.graph if made.graph is graph else _told(made, not samples)


def _told(made: Rescaled, drawn_inputs: bool) -> Graph:
    """The graph with what was done to it in its metadata, for the report."""
    exponents = [exponent for exponent, _ in made.exponents.values()]
    largest, name = max((largest, name) for name, (_, largest) in made.exponents.items())
    source = "drawn inputs" if drawn_inputs else "samples"
    said = f"{len(exponents)} tensors are held times 2^{min(exponents)} to 2^{max(exponents)}, from what {source} made"
    left = f"; beyond fp16 where they are read as they are: {', '.join(made.beyond[:4])}" if made.beyond else ""
    return replace(made.graph, metadata={**made.graph.metadata, f"{RESCALED}{name}": f"{largest:g} {said}{left}"})
