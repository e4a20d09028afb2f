"""Reverse-mode differentiation of graphs: forward pass, saved intermediates and backward pass as one graph.

The backward pass is made of the operations' gradient rules (ops.spec.Op.gradient) and runs on the engine like any
graph: what the forward pass computed is read where it lies, nothing leaves the program between the two. Gradients are
fp16 numbers, and what lies below 6e-8 is lost: `scale` multiplies them all, to be divided out when they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value, copy_of, numpy_type
from openane.ops import all_ops, get_op
from openane.ops.gradients import Backward
from openane.ops.rewriter import Rewriter
from openane.passes.dead_code import remove_dead_code
from openane.passes.rewrite import rebuilt, taken_names
from openane.training.gradient_repeats import without_repeats
from openane.training.gradient_weights import computable, promote, spelled

SCALE = "loss_scale"
"""Name of the input that holds the loss scale when it is given at run time."""
REAL = ("fp16", "fp32")


def gradient(graph: Graph, loss: str, wrt: Sequence[str], scale: float | None = 1.0, runtime: bool = True) -> Graph:
    """The graph with an output `gradient_<name>` more for every name in `wrt`: scale * d loss / d name.

    `loss` names an output of one element of fp16 or fp32. `wrt` names inputs, or constants, which become inputs (see
    `promote`). A gradient has the shape and element type of what it belongs to. `scale` is the number the backward pass
    starts from; with None it is an input "loss_scale" of the loss's type and shape, so that it can change from run to
    run. All other inputs and outputs stay as they are and come first. With `runtime` the graph compiles with its
    weights as inputs (see `computable`); without it operations keep their form, for weights that become constants again
    before it is compiled.

    Where a function has a corner one of its slopes is taken, or equal shares (maxima); comparisons, arg max, rounding
    and casts to integers end a gradient. GraphError when a name is unknown or repeated, the loss is no real number, or
    does not depend on a name; UnsupportedError names an operation between the two that has no gradient rule.
    """
    names = _distinct(wrt)
    graph = _with_inputs(graph, names)
    final = _loss(graph, loss)
    inputs = {value.name: value for value in graph.inputs if value.name in names}
    graph = _differentiable(graph, final, inputs.values())
    taken = taken_names(graph) | {value.name for node in graph.nodes for value in node.values() if value.constant}
    taken = _reserved(taken, [*map(output_name, names), *([SCALE] if scale is None else [])])
    seed = _seed(final, scale, taken)
    nodes, found = _backward(graph, final, seed, _reached(graph, inputs.values()), taken)
    results = [_result(inputs[name], found, loss) for name in names]
    joint = replace(graph, inputs=graph.inputs if seed.constant else (*graph.inputs, seed),
                    nodes=(*graph.nodes, *nodes, *results), outputs=(*graph.outputs, *(r.output for r in results)))
    joint = remove_dead_code(without_repeats(computable(joint) if runtime else joint))
    joint.verify()
    return joint


def output_name(name: str) -> str:
    """What the gradient of an input is called."""
    return f"gradient_{name}"


def _result(value: Value, found: Mapping[int, Value], loss: str) -> Node:
    """The gradient of an input under the name of its output."""
    if id(value) not in found:
        raise GraphError(f"the loss {loss!r} does not depend on {value.name!r} by way of real numbers: leave it out of "
                         "wrt, or look for a comparison, rounding or integer in between")
    name = output_name(value.name)
    return copy_of(found[id(value)], Value(name, value.type), f"gradient of {value.name!r}")


def _distinct(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names or len(set(names)) != len(names):
        raise GraphError(f"wrt must name at least one input, each once; found {names!r}")
    return list(names)


def _with_inputs(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph with every name an input of real numbers."""
    given = {value.name for value in graph.inputs}
    graph, _ = promote(graph, [name for name in names if name not in given], runtime=False)
    for value in graph.inputs:
        if value.name in names and value.dtype not in REAL:
            raise GraphError(f"wrt: {value.name!r} must hold fp16 or fp32; found {value.type}")
    return graph


def _loss(graph: Graph, name: str) -> Value:
    found = next((value for value in graph.outputs if value.name == name), None)
    if found is None:
        raise GraphError(f"loss {name!r} is not an output; outputs are {', '.join(v.name for v in graph.outputs)}")
    if found.dtype not in REAL or found.type.elements != 1:
        raise GraphError(f"loss {name!r} must be one number of fp16 or fp32 (reduce_mean over all dimensions makes "
                         f"one); found {found.type}")
    return found


def _reserved(taken: set[str], names: Iterable[str]) -> set[str]:
    """The taken names and these. GraphError when one of these is among them already."""
    for name in names:
        if name in taken:
            raise GraphError(f"the name {name!r} is needed for the backward pass and taken: rename the value")
    return taken | set(names)


def _differentiable(graph: Graph, loss: Value, sources: Iterable[Value]) -> Graph:
    """The graph with operations that have a decomposition and no gradient rule taken apart, and those that have an
    expansion between `sources` and the loss."""
    names, nodes, between = taken_names(graph), [], _reached(graph, sources) & _needed(graph, loss)
    for node in graph.nodes:
        nodes += _parts(node, names, any(id(value) in between for value in node.outputs))
    return rebuilt(graph, nodes)


def _parts(node: Node, names: set[str], between: bool) -> list[Node]:
    op = all_ops().get(node.op)  # not known here: reads and writes of states
    if op is None:
        return [node]
    form = op.expand if between and op.expand is not None else op.decompose if op.gradient is None else None
    if form is None:
        return [node]
    parts = list(spelled(node, names))  # what a decomposition makes wants constants where the operation does
    if parts == [node]:
        rewriter = Rewriter(node, names, node.source)
        made = form(node, rewriter)
        if made is None:  # differentiated as it is
            return [node]
        parts = list(rewriter.instead(made))
    return [inner for part in parts for inner in _parts(part, names, between)]


def _needed(graph: Graph, loss: Value) -> set[int]:
    """id(value) of every value the loss depends on."""
    needed = {id(loss)}
    for node in reversed(graph.nodes):
        if any(id(value) in needed for value in node.outputs):
            needed.update(id(value) for value in node.values())
    return needed


def _reached(graph: Graph, sources: Iterable[Value]) -> set[int]:
    """id(value) of every value of real numbers that depends on `sources` by way of real numbers."""
    reached = {id(value) for value in sources}
    for node in graph.nodes:
        if any(id(value) in reached for value in node.values()):
            reached.update(id(value) for value in node.outputs if value.dtype in REAL)
    return reached


def _seed(loss: Value, scale: float | None, taken: set[str]) -> Value:
    """What the backward pass starts from: a constant, or the input SCALE."""
    if scale is None:
        return Value(SCALE, loss.type)
    with np.errstate(over="ignore"):
        data = np.full(loss.shape, scale, numpy_type(loss.dtype))
    if not np.isfinite(data).all() or not data.all():
        raise GraphError(f"scale must be a number other than 0 that {loss.dtype} holds; found {scale}")
    name = "gradient_scale"
    while name in taken:
        name += "_"
    taken.add(name)
    return Value(name, loss.type, data)


def _backward(graph: Graph, loss: Value, seed: Value, wanted: set[int],
              taken: set[str]) -> tuple[list[Node], dict[int, Value]]:
    """The backward pass's nodes, and by id(value) the gradient of every value it reaches."""
    found: dict[int, Value] = {id(loss): seed}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        upstream = tuple(found.get(id(value)) for value in node.outputs)
        needed = any(id(value) in wanted for value in node.values())
        if not needed or all(value is None for value in upstream):
            continue
        rule = get_op(node.op).gradient
        if rule is None:
            raise UnsupportedError(node.label, "this operation has no gradient rule", remedy="write it with operations "
                                   "that have one, or train only what comes after it")
        backward = Backward(node, taken, wanted)
        _collect(backward, node, rule(node, upstream, backward), found)
        nodes += backward.made
    return nodes, found


def _collect(backward: Backward, node: Node, slopes: object, found: dict[int, Value]) -> None:
    """Adds a node's gradients to those of its operands."""
    assert hasattr(slopes, "items"), "a gradient rule returns a mapping"
    for name, slope in slopes.items():
        operand = node.operands[name]
        operands = operand if isinstance(operand, tuple) else (operand,)
        for value, part in zip(operands, slope if isinstance(slope, tuple) else (slope,), strict=True):
            if not backward.wants(value):
                continue
            assert part.type == value.type, f"{node.label}: the gradient of {name} is {part.type}, not {value.type}"
            before = found.get(id(value))
            found[id(value)] = part if before is None else backward.single("add", x=before, y=part)


__all__ = ["SCALE", "computable", "gradient", "output_name", "promote"]
