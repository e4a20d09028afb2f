"""How much care a model's numbers get, beside its speed.

- `safe`: numbers that leave the engine's range on samples are moved into it by powers of two (passes.rescale); where
  none do, it is as-is.
- `as-is`: tensors are what the model says; functions are as its importer asks (accuracy.FUNCTIONS).
- `fast`: as-is, and every function is one table, as in programs of Apple's compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, without_stated
from openane.ops.accuracy import CLOSE, CLOSE_IF_SAFE, FUNCTIONS
from openane.ops.halves import RANGE, RESCALED
from openane.ops.measured_inputs import largest_of

if TYPE_CHECKING:
    from openane.passes.rescale import Rescaled

Samples = Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]]
"""Arrays by input name: of one sample, or of several."""

MOST_DRAWN = 1 << 27
"""Elements of the largest tensor that is evaluated on inputs nobody gave: each takes four bytes and more."""


SAMPLES, DRAWN = "samples", "drawn inputs"
"""What ranges are measured on."""


class PrecisionMode(StrEnum):
    """What `openane.compile` and --precision take."""

    AS_IS = "as-is"
    SAFE = "safe"
    FAST = "fast"


def several(samples: Samples | None) -> Sequence[Mapping[str, np.ndarray]]:
    """The samples as a sequence, empty where there are none."""
    return [samples] if isinstance(samples, Mapping) else samples or []


def require_known(precision: str) -> None:
    """UnsupportedError for a precision there is not."""
    if precision not in set(PrecisionMode):
        raise UnsupportedError(f"precision {precision!r}", "is none there is", limit=", ".join(PrecisionMode),
                               found=precision)


def precise(graph: Graph, precision: str, samples: Samples | None = None) -> Graph:
    """The graph that is compiled in place of one, `samples` (arrays by input name) drawn where none are given.
    UnsupportedError for a precision there is not; GraphError when samples do not fit the inputs."""
    require_known(precision)
    graph = with_functions(graph, precision)
    if precision != PrecisionMode.SAFE:
        return without_stated(graph)
    from openane.compiler.partition.legality import check_known
    from openane.graph.states import without_states
    from openane.ops.drawn_inputs import Drawn, drawn
    from openane.passes.rescale import rescale

    check_known(without_states(graph).graph)
    given = several(samples)
    if given and not isinstance(given[0], Drawn):
        return _measured(graph, rescale(graph, given), given, SAMPLES)
    try:
        _require_small(graph)
        inputs = given or [drawn(graph)]
        made = rescale(graph, inputs)
        if made.products and not given:  # of which one sample says too little
            inputs = [*inputs, drawn(graph, seed=1)]
            made = rescale(graph, inputs)
        return _measured(graph, made, inputs, DRAWN)
    except GraphError as error:  # of inputs that nobody gave: positions outside of a table, say
        return replace(graph, metadata={**graph.metadata, f"{RESCALED}{graph.name}":
                                        f"ranges of its numbers are not known, as it cannot be evaluated on drawn "
                                        f"inputs ({error}); give --sample, or check the outputs"})


def _require_small(graph: Graph) -> None:
    """GraphError when a tensor is too large to be evaluated unasked."""
    for node in graph.nodes:
        largest = max((value.type.elements for value in node.outputs), default=0)
        if largest > MOST_DRAWN:
            raise GraphError(f"{node.label}: {largest} elements are more than {MOST_DRAWN}")


def with_functions(graph: Graph, precision: str) -> Graph:
    """The graph with functions that are close or not, as the precision says."""
    asked = graph.metadata.get(FUNCTIONS)
    wanted = {PrecisionMode.SAFE: (CLOSE, CLOSE_IF_SAFE), PrecisionMode.AS_IS: (CLOSE,)}
    close = asked in wanted.get(PrecisionMode(precision), ())
    if asked is None or (asked == CLOSE and close):
        return graph
    rest = {key: text for key, text in graph.metadata.items() if key != FUNCTIONS}
    return graph.with_metadata(rest | ({FUNCTIONS: CLOSE} if close else {}))


def _measured(graph: Graph, made: Rescaled, samples: Sequence[Mapping[str, np.ndarray]], source: str) -> Graph:
    """The graph that was made, with what inputs were seen and what was done in its metadata."""
    told = _told(graph, made, source)
    arrays = {value.name: [np.asarray(each[value.name]) for each in samples if value.name in each]
              for value in graph.inputs}
    ranges = {f"{RANGE}{name}": f"{max(map(largest_of, each)):g} {source}" for name, each in arrays.items()
              if each and each[0].dtype.kind == "f"}
    return told.with_metadata({**told.metadata, **ranges})


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _told(graph: Graph, made: Rescaled, source: str) -> Graph:
    """The graph with what was done to it in its metadata, for the report."""
    if made.graph is graph:
        return graph
    exponents = [exponent for exponent, _ in made.exponents.values()]
    largest, name = max(((largest, name) for name, (_, largest) in made.exponents.items()), default=(0.0, graph.name))
    said = []
    if exponents:
        powers = " to ".join(f"2^{each}" for each in sorted({min(exponents), max(exponents)}))
        said.append(f"{_counted(len(exponents), 'tensor')} times {powers}, with numbers of up to {largest:.3g}")
    if made.sums:
        said.append(f"{_counted(made.sums, 'sum')} times a power of two that the task itself takes back")
    if made.channels:
        said.append(f"{_counted(made.channels, 'sum')} that a logarithm reads times a power of two for each channel")
    if not said and not made.beyond:  # functions that keep the digits of small results are no news
        return made.graph
    what = "numbers that fp16 or the engine's sums would not hold, or not with their digits, are held times powers " \
           f"of two: {', '.join(said)}" if said else "functions whose small results count keep the digits of these"
    left = f", but where they are read as they are these stay beyond fp16: {', '.join(made.beyond[:4])}" \
        if made.beyond else ""
    remedy = "ane check says what that does to outputs" if left else "nothing to do, as outputs stay those of the model"
    return replace(made.graph, metadata={
        **made.graph.metadata, f"{RESCALED}{name}": f"{what} (measured on {source}){left}; {remedy}"})
