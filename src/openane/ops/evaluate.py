"""Runs whole graphs by the operations' references: what a model computes, in fp32 or better, without an engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Node, Operand, RoundedConstant, Value, numpy_type, substituted
from openane.ops import get_op
from openane.ops.half_bits import from_half
from openane.ops.operands import default_data, element_type
from openane.ops.spec import Op, Parameter
from openane.ops.spent import Spent

EPSILON = "epsilon"
"""The operand of a norm that is evaluated in all digits the model states: beside small variances each counts, and what
is held times a power of two has them."""
Seen = Callable[[Node, Mapping[int, np.ndarray]], None]
"""Told of a node when its results are known: operands and results by id(value)."""
SeenTogether = Callable[[Node, Sequence[Mapping[int, np.ndarray]]], None]
"""The same for several samples."""
Pair = tuple[dict[int, np.ndarray], dict[int, np.ndarray]]
"""Operands and results by id(value), of a graph as it is and as it is changed."""
Changed = Callable[[Node, Sequence[Pair]], Node]
"""What a node becomes: told of what it reads in either graph, and of its own results as it is."""


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray], seen: Seen | None = None, spend: bool = False
             ) -> dict[str, np.ndarray]:
    """The outputs by name for inputs by name; `seen` is told of every node on the way. It keeps none of the arrays
    where these may be written over when nothing reads them any more (`spend`).

    Real numbers are float32 throughout, not rounded to fp16 between operations (only `cast` rounds); integers and
    booleans keep their type. GraphError when an input is missing, unknown, or of another shape or kind.
    """
    def told(node: Node, several: Sequence[Mapping[int, np.ndarray]]) -> None:
        if seen is not None:
            seen(node, several[0])

    return evaluate_together(graph, [inputs], told, spend)[0]


def evaluate_together(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]], seen: SeenTogether,
                      spend: bool = False) -> list[dict[str, np.ndarray]]:
    """As `evaluate`, for several samples node by node: `seen` is told of a node when its results are known for all of
    them. Memory holds what is still to be read, of every sample."""
    several = [_inputs(graph, inputs) for inputs in samples]
    last = last_uses(graph)
    done = done_after(last)
    spent = Spent(graph, last) if spend else None
    for position, node in enumerate(graph.nodes):
        wide = widened(node) if len(several) > 1 else node
        for results in several:
            over = None if spent is None else spent.over(node, position, results)
            results.update(_results(wide, node, results, over))
        seen(node, several)
        for results in several:
            if spent is not None:
                spent.keep(done[position], results)
            forget(results, done[position])
    return [{value.name: np.asarray(_array(value, results)) for value in graph.outputs} for results in several]


def evaluate_beside(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]], changed: Changed) -> None:
    """Evaluates a graph for several samples as it is and, node by node beside it, with every node as `changed` makes
    it. Memory holds what is still to be read, of every sample, twice where it differs."""
    pairs: list[Pair] = [(given, dict(given)) for given in (_inputs(graph, inputs) for inputs in samples)]
    done = done_after(last_uses(graph))
    for position, node in enumerate(graph.nodes):
        wide = widened(node)
        for plain, _ in pairs:
            plain.update(_results(wide, node, plain))
        made = changed(node, pairs)
        _evaluate_other(node, made, pairs)
        for pair in pairs:
            for results in pair:
                forget(results, done[position])


def _evaluate_other(node: Node, made: Node, pairs: Sequence[Pair]) -> None:
    """The results of what a node became; those of the node itself where that reads the same."""
    wide = widened(made)
    for plain, results in pairs:
        if made is node and all(results.get(id(value)) is plain.get(id(value)) for value in node.values()):
            results.update((id(value), plain[id(value)]) for value in node.outputs)
        else:
            results.update(_results(wide, node, results))


def _results(wide: Node, node: Node, arrays: Mapping[int, np.ndarray], over: np.ndarray | None = None
             ) -> dict[int, np.ndarray]:
    """What a node computes, by id of its outputs; `wide` is it with constants to compute with."""
    return dict(zip(map(id, node.outputs), evaluate_node(wide, arrays, over), strict=True))


def _inputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """What is given, by id of the inputs."""
    found = {id(value): _input(value, inputs) for value in graph.inputs}
    unknown = sorted(set(inputs) - {value.name for value in graph.inputs})
    if unknown:
        raise GraphError(f"input {unknown[0]!r} is not one of {', '.join(value.name for value in graph.inputs)}")
    return found


def forget(results: dict[int, np.ndarray], done: Collection[int]) -> None:
    """Gives up the results of these ids."""
    for key in done:
        results.pop(key, None)


def widened(node: Node) -> Node:
    """The node with constants as `evaluate_node` computes with them, which it then need not convert every time."""
    if get_op(node.op).positions:
        return node
    return substituted(node, {id(value): replace(value, data=_widened(value.data)) for value in node.values()
                              if isinstance(value.data, np.ndarray) and value.data.dtype == np.float16})


def evaluate_node(node: Node, arrays: Mapping[int, np.ndarray], over: np.ndarray | None = None
                  ) -> tuple[np.ndarray, ...]:
    """One node's results; `arrays` holds operands that are not constants by id(value). `over`: memory for the result,
    of an operation that takes such."""
    op = get_op(node.op)
    keywords: dict[str, Any] = {}
    for name, parameter in op.named.items():
        operand = node.operands.get(name)
        keywords[name] = _left_out(op, parameter, node) if operand is None else _given(op, parameter, operand, arrays)
    if over is not None:
        keywords["over"] = over
    try:
        with np.errstate(all="ignore"):
            results = op.reference(**keywords)
            return tuple(map(_widened, results)) if op.positions else results
    except MemoryError:
        raise GraphError(f"{node.label}: there is not enough memory to compute it") from None
    except IndexError as error:
        raise GraphError(f"{node.label}: an index lies outside of what it counts: {error}") from None


def last_uses(graph: Graph) -> dict[int, int]:
    """Position of the last node that reads or makes each value; outputs of the graph are not listed."""
    table = {id(value): i for i, node in enumerate(graph.nodes) for value in (*node.outputs, *node.values())}
    for value in graph.outputs:
        table.pop(id(value), None)
    return table


def done_after(last: Mapping[int, int]) -> Mapping[int, list[int]]:
    """The values, by id, of which nothing is read behind each position, of those of `last_uses`."""
    table = defaultdict[int, list[int]](list)
    for number, position in last.items():
        table[position].append(number)
    return table


def _input(value: Value, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    if value.name not in inputs:
        raise GraphError(f"input {value.name!r} is missing; it is {value.type}")
    array = np.asarray(inputs[value.name])
    if array.shape != value.shape:
        raise GraphError(f"input {value.name!r} must have shape {list(value.shape)}; found {list(array.shape)}")
    wanted = numpy_type(value.dtype)
    if not np.can_cast(array.dtype, wanted, "same_kind"):
        raise GraphError(f"input {value.name!r} must hold {value.dtype}; found {array.dtype}")
    held = array.astype(np.float32 if wanted.kind == "f" else wanted, copy=False)
    if wanted.kind != "f" and not np.array_equal(held, array):
        raise GraphError(f"input {value.name!r} must hold values {value.dtype} can; found {array.dtype} beyond them")
    return held


def _left_out(op: Op, parameter: Parameter, node: Node) -> Any:
    """What stands for an operand that a node does not state."""
    data = None if parameter.default is None else \
        default_data(op.name, parameter, element_type(op.parameters, node.operands))
    return _widened(data) if isinstance(data, np.ndarray) else data


def _given(op: Op, parameter: Parameter, operand: Operand, arrays: Mapping[int, np.ndarray]) -> Any:
    """An operand as a reference takes it; of a large table only what is looked up is widened."""
    if op.normalises and parameter.name == EPSILON and isinstance(operand, RoundedConstant):
        return operand.digits()
    read = _held if op.positions or parameter.name in op.widens else _array
    if isinstance(operand, tuple) or parameter.variadic:
        return tuple(read(value, arrays) for value in (operand if isinstance(operand, tuple) else (operand,)))
    return read(operand, arrays)


def _array(value: Value, arrays: Mapping[int, np.ndarray]) -> Any:
    found = _held(value, arrays)
    return _widened(found) if isinstance(found, np.ndarray) else found


def _held(value: Value, arrays: Mapping[int, np.ndarray]) -> Any:
    found = value.data if value.data is not None else arrays.get(id(value))
    if found is None:
        raise GraphError(f"{value.name!r} is used before it is made")
    return found


def _widened(array: np.ndarray) -> np.ndarray:
    return from_half(array) if array.dtype.kind == "f" and array.dtype != np.float32 else array
