"""Warns, when a model is compiled, of numbers that fp16 or the engine will not hold: among the model's constants, and
among what it computes on sample inputs.

The engine holds fp16 everywhere (65504 at most). Its multiply-accumulate becomes infinite from 2^15 on (measured on an
M1). Functions made of tables are meant for inputs in a certain domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from openane.chips.arithmetic import QUANTUM, SUM_LIMIT
from openane.compiler.records import Concern
from openane.graph import Graph, Node, Value
from openane.ops import all_ops, get_op
from openane.ops.accuracy import CLOSE, CLOSE_IF_SAFE, FUNCTIONS
from openane.ops.affine import scales
from openane.ops.drawn_inputs import Drawn, drawn
from openane.ops.evaluate import evaluate
from openane.ops.halves import LARGEST, RESCALED, SATURATED, halves_finite
from openane.ops.late_constant import LateConstant
from openane.ops.unary import keeps_small
from openane.ops.work import node_work
from openane.passes.folded_constants import FoldedConstant

SMALLEST = 2.0 ** -25
"""Smaller magnitudes round to zero in fp16."""
VANISHES = QUANTUM / 2
"""Products of smaller magnitude are rounded to zero before they are added: the accumulator counts in steps of 2^-16
(worked out from error norms of seven chips)."""
NEAR = 0.5
COARSE = 0.1
"""Share of a function's usual result from which the error of its table is told of."""
QUICK = 2e8
"""Multiply-adds a model may take to be evaluated on samples nobody asked for."""


def concerns(graph: Graph, samples: Mapping[str, np.ndarray] | None = None) -> tuple[Concern, ...]:
    """Everything found in a graph's constants and, on `samples` (arrays by input name), in what it computes.

    GraphError when samples do not fit the inputs.
    """
    found = [*_saturated(graph), *_constants(graph)]
    if samples is not None:
        close = graph.metadata.get(FUNCTIONS) in (CLOSE, CLOSE_IF_SAFE)

        def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
            found.extend(_computed(node, arrays))
            if not close:
                found.extend(_coarse(node, arrays))
        evaluate(graph, samples, seen)
    return tuple(found)


def drawn_samples(graph: Graph) -> Drawn | None:
    """Seeded inputs for a graph that is quickly evaluated, else None (ops.drawn_inputs)."""
    return None if sum(map(node_work, graph.nodes)) > QUICK else drawn(graph)


def _saturated(graph: Graph) -> Iterator[Concern]:
    """What an importer replaced, taking it for "below all others" (or above), and what was rescaled."""
    for key, text in graph.metadata.items():
        if key.startswith(SATURATED):
            found, made = text.split()
            yield Concern(key.removeprefix(SATURATED), f"a constant that masks was made {made}", float(found), LARGEST,
                          "nothing, where what it masks goes into a softmax or a maximum: otherwise rescale the model")
        elif key.startswith(RESCALED):
            said, _, remedy = text.rpartition("; ")
            yield Concern(key.removeprefix(RESCALED), said, 0.0, 0.0, remedy)


def _constants(graph: Graph) -> Iterator[Concern]:
    for node in graph.nodes:
        if scales(node):
            continue
        for name, operand in node.operands.items():
            for value in operand if isinstance(operand, tuple) else (operand,):
                if value.constant and not _sound(node, value) and isinstance(value.data, np.ndarray) \
                        and value.data.dtype.kind == "f":
                    yield from _constant(node, name, value)


def _sound(node: Node, value: Value) -> bool:
    """Whether nothing is wrong with a constant, of which it was seen before that fp16 holds every number of it, or
    which nothing sums."""
    return value.dtype == "fp16" and (isinstance(value, (FoldedConstant, LateConstant)) or not _sums(node))


def _constant(node: Node, name: str, value: Value) -> Iterator[Concern]:
    data = value.array()
    infinite = 0 if not _sums(node) or halves_finite(data) else int(np.count_nonzero(np.isinf(data)))
    if infinite:
        yield Concern(node.label, f"{infinite} of {data.size} values of {name} are infinite", float("inf"), LARGEST,
                      "they left fp16 when the model was made: scale them down and the result up")
    if data.dtype == np.float16:  # holds what it holds, and weights may be many
        return
    size = np.abs(data.astype(np.float64))
    finite = size[np.isfinite(size)]
    beyond = int(np.count_nonzero(finite >= LARGEST + 16))
    if beyond:
        yield Concern(node.label, f"{beyond} of {data.size} values of {name} become infinite in fp16",
                      float(finite.max()), LARGEST, "scale them down and the result up, or use a smaller constant")
    lost = int(np.count_nonzero((finite > 0) & (finite <= SMALLEST)))
    if lost and 2 * lost > np.count_nonzero(finite):
        yield Concern(node.label, f"{lost} of {data.size} values of {name} become zero in fp16",
                      float(finite[finite > 0].min()), SMALLEST, "scale them up and the result down")


def _computed(node: Node, arrays: Mapping[int, np.ndarray]) -> Iterator[Concern]:
    """What one node computed, and what it read, on the samples."""
    yield from _results(node, arrays)
    yield from _beyond_domain(node, arrays)


def _results(node: Node, arrays: Mapping[int, np.ndarray]) -> Iterator[Concern]:
    """What one node computed; infinities that came in are not its own."""
    for value in node.outputs:
        largest = _largest(arrays.get(id(value)))
        if _sums(node) and largest >= NEAR * SUM_LIMIT:
            verb = "become infinite" if largest >= SUM_LIMIT else "come near the end of the accumulator"
            yield Concern(node.label, f"sums {verb}", largest, SUM_LIMIT, "scale the weights or the input down")
        elif largest > LARGEST >= max(map(partial(_read, arrays), node.values()), default=0.0):
            yield Concern(node.label, "results become infinite in fp16", largest, LARGEST, "scale the input down")
        product = _product(node, arrays) if _sums(node) else 0.0
        if 0 < product < VANISHES:
            yield Concern(node.label, "most products round to zero before they are added", product, VANISHES,
                          "scale the weights or the input up and the result down")


def _read(arrays: Mapping[int, np.ndarray], value: Value) -> float:
    """The largest magnitude a node reads of an operand: a constant's infinities, as a mask has them, are meant."""
    data = arrays.get(id(value), value.data)
    return _largest(data) if isinstance(data, np.ndarray) else 0.0


def _beyond_domain(node: Node, arrays: Mapping[int, np.ndarray]) -> Iterator[Concern]:
    """What a function of a table reads beyond the table's domain."""
    unary, x = get_op(node.op).unary, node.get("x")
    if unary is None or x is None or id(x) not in arrays or arrays[id(x)].dtype.kind != "f":
        return
    low, high = float(np.min(arrays[id(x)])), float(np.max(arrays[id(x)]))
    for beyond, found, limit in ((high > unary.bound.high, high, unary.bound.high),
                                 (low < unary.bound.low, low, unary.bound.low)):
        if beyond:
            yield Concern(node.label, "the input leaves the domain of the function's table", found, limit,
                          "scale or clip it before")


def _coarse(node: Node, arrays: Mapping[int, np.ndarray]) -> Iterator[Concern]:
    """A function of one table, for which there is a closer form, whose results are small beside the table's error."""
    unary = get_op(node.op).unary
    if unary is None or unary.closer is None or keeps_small(node):
        return
    usual = _usual(arrays.get(id(node.output)))
    if 0 < usual < unary.bound.absolute / COARSE:
        yield Concern(node.label, f"results near {usual:.2g} come from a table that errs by up to "
                      f"{unary.bound.absolute:.2g}", 0.0, 0.0,
                      'nothing, where the outputs are right (ane check says so); else ask for close functions, a task '
                      'or two more each: graph.metadata["functions"] = "close", which ONNX models have with '
                      '--precision safe')


def _sums(node: Node) -> bool:
    """Whether it sums products in the accumulator."""
    op = all_ops().get(node.op)  # not known: reads and writes of states
    return op is not None and op.sums_products


def _product(node: Node, arrays: Mapping[int, np.ndarray]) -> float:
    """The usual size of a product of an element of one operand and one of the other: of their root mean squares. 0
    where there are no two operands."""
    pair = [node.get("x"), node.get("weight") or node.get("y")]
    sizes = [_usual(value.data if isinstance(value.data, np.ndarray) else arrays.get(id(value)))
             for value in pair if isinstance(value, Value)]
    return sizes[0] * sizes[1] if len(sizes) == 2 else 0.0


def _usual(array: np.ndarray | None) -> float:
    if array is None or array.dtype.kind != "f" or not array.size:
        return 0.0
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def _largest(array: np.ndarray | None) -> float:
    if array is None or array.dtype.kind != "f" or not array.size:
        return 0.0
    size = np.abs(array)
    return float(np.max(size, initial=0.0, where=np.isfinite(size))) if not np.isposinf(size).any() else float("inf")
