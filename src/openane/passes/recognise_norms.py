"""Normalisations that are spelled out become one node, whose statistics the engine closes in one reduction.

Layer normalisation: (x - mean(x)) over the root of the mean of its square plus epsilon; over the dimensions a reshape
has set apart it is group normalisation. The same without the mean is RMS normalisation, and with a sum in place of the
mean RMS normalisation and a scale. The root may be rsqrt, a power of -0.5, or a division by sqrt or by an L2 norm kept
above a small number; the square mul, square or pow; constants behind it become gamma and beta. x * g + (beta - mean(x)
* g) with g = gamma / root, as Keras writes it, is read as well. The logarithm of a softmax becomes x - max -
log(sum(exp(x - max))): small probabilities keep their logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops import arguments
from openane.ops.rewriter import Rewriter
from openane.passes.rewrite import only_user, rebuilt, taken_names

NORMS = {"layer_norm": ("gamma", "beta"), "rms_norm": ("gamma",)}
SMALL = 1e-4
"""An epsilon below it does not change the logarithm of what fp16 keeps of a softmax."""


@dataclass(frozen=True, slots=True)
class Norm:
    """op over `axes` of `x`; `total`: by the root of the sum of squares plus epsilon, not of their mean."""

    op: str
    x: Value
    axes: tuple[int, ...]
    epsilon: float
    total: bool = False


def recognise_norms(graph: Graph) -> Graph:
    """The graph with spelled-out normalisations and log-softmaxes as one node or few."""
    producers = graph.producers()
    names = taken_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        made = _as_norm(node, names, producers) or _as_moments(node, names, producers)
        nodes += made or _as_log_softmax(node, names, producers) or (node,)
    return _with_vectors(rebuilt(graph, nodes))


def _as_norm(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    norm = _norm(node, producers) or _unit(node, producers)
    if norm is None or norm.x.type != node.output.type:
        return None
    rewriter, count = Rewriter(node, names), prod(norm.x.shape[axis] for axis in norm.axes)
    epsilon = norm.epsilon / count if norm.total else norm.epsilon
    made = rewriter.single(norm.op, x=norm.x, axes=list(norm.axes), epsilon=epsilon)
    return rewriter.instead([rewriter.single("mul", x=made, y=count ** -0.5) if norm.total else made])


def _norm(node: Node, producers: Mapping[int, Node]) -> Norm | None:
    """The normalisation whose last step `node` is."""
    for numerator, spread in _quotients(node, producers):
        inner, epsilon = _with_epsilon(spread[0], producers)
        found = _folded_squares(inner, producers)
        if found is None or found[0] is not numerator:
            continue
        _, axes, total = found
        centred = producers.get(id(numerator))
        if centred is not None and centred.op == "sub" and not total:
            average = _folded(centred["y"], producers, "reduce_mean")
            if average is not None and average[0] is centred["x"] and average[1] == axes:
                return Norm("layer_norm", centred["x"], axes, epsilon + spread[1])
        return Norm("rms_norm", numerator, axes, epsilon + spread[1], total)
    return None


def _unit(node: Node, producers: Mapping[int, Node]) -> Norm | None:
    """x / max(L2 norm of x, small number): the number only keeps zeros from dividing by zero."""
    bounded = producers.get(id(node["y"])) if node.op == "real_div" else None
    if bounded is None or bounded.op != "maximum":
        return None
    small = _scalar(bounded["y"])
    found = _folded(bounded["x"], producers, "reduce_l2_norm")
    if found is None or found[0] is not node["x"] or small is None or not 0 <= small <= SMALL:
        return None
    return Norm("rms_norm", node["x"], found[1], small * small, True)


def _as_moments(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """Layer normalisation written x * g + (beta - mean(x) * g)."""
    for scaled, rest in ((node["x"], node["y"]), (node["y"], node["x"])) if node.op == "add" else ():
        product, shift = producers.get(id(scaled)), producers.get(id(rest))
        if product is None or shift is None or (product.op, shift.op) != ("mul", "sub") or not shift["x"].constant:
            continue
        for x, gain in ((product["x"], product["y"]), (product["y"], product["x"])):
            norm = _centred(x, gain, shift["y"], producers)
            if norm is None or x.type != node.output.type:
                continue
            rewriter, gamma = Rewriter(node, names), _factors(gain, producers)[1]
            made = rewriter.single("layer_norm", x=x, axes=list(norm.axes), epsilon=norm.epsilon)
            made = made if gamma is None else rewriter.single("mul", x=made, y=gamma)
            return rewriter.instead([rewriter.single("add", x=made, y=shift["x"])])
    return None


def _centred(x: Value, gain: Value, back: Value, producers: Mapping[int, Node]) -> Norm | None:
    """The norm of x when `back` is mean(x) * gain and gain the reciprocal root of x's variance times a constant."""
    product, root = producers.get(id(back)), _reciprocal_root(_factors(gain, producers)[0], producers)
    if product is None or product.op != "mul" or root is None or gain not in (product["x"], product["y"]):
        return None
    mean = product["y"] if product["x"] is gain else product["x"]
    average, (inner, epsilon) = _folded(mean, producers, "reduce_mean"), _with_epsilon(root[0], producers)
    squares = _folded_squares(inner, producers)
    difference = None if squares is None else producers.get(id(squares[0]))
    if average is None or squares is None or difference is None or difference.op != "sub" or squares[2]:
        return None
    same = average[0] is x and average[1] == squares[1] and difference["x"] is x and difference["y"] is mean
    return Norm("layer_norm", x, average[1], epsilon + root[1]) if same else None


def _factors(gain: Value, producers: Mapping[int, Node]) -> tuple[Value, Value | None]:
    """(computed factor, constant factor or None) of a product."""
    node = producers.get(id(gain))
    if node is not None and node.op == "mul":
        for factor, constant in ((node["x"], node["y"]), (node["y"], node["x"])):
            if constant.constant and not factor.constant:
                return factor, constant
    return gain, None


def _quotients(node: Node, producers: Mapping[int, Node]) -> list[tuple[Value, tuple[Value, float]]]:
    """(numerator, (v, epsilon)) for each way to read the node as numerator / sqrt(v + epsilon)."""
    if node.op not in ("mul", "real_div"):
        return []
    x, y = node["x"], node["y"]
    if node.op == "real_div":
        root = _root(producers.get(id(y)), 0.5)
        return [] if root is None else [(x, root)]
    pairs = ((x, _reciprocal_root(y, producers)), (y, _reciprocal_root(x, producers)))
    return [(numerator, root) for numerator, root in pairs if root is not None]


def _root(node: Node | None, exponent: float) -> tuple[Value, float] | None:
    """(v, epsilon) when the node is (v + epsilon) ^ exponent, a half or minus a half."""
    if node is None:
        return None
    if node.op == "pow" and _scalar(node["y"]) == exponent:
        return node["x"], 0.0
    if node.op == "sqrt" and exponent == 0.5:
        return node["x"], 0.0
    if node.op == "rsqrt" and exponent == -0.5:
        return node["x"], arguments(node).number("epsilon")
    return None


def _reciprocal_root(value: Value, producers: Mapping[int, Node]) -> tuple[Value, float] | None:
    node = producers.get(id(value))
    if node is None:
        return None
    if node.op == "real_div" and _scalar(node["x"]) == 1.0:
        return _root(producers.get(id(node["y"])), 0.5)
    if node.op == "inverse" and arguments(node).number("epsilon") <= SMALL:
        return _root(producers.get(id(node["x"])), 0.5)
    return _root(node, -0.5)


def _with_epsilon(value: Value, producers: Mapping[int, Node]) -> tuple[Value, float]:
    """(v, c) when the value is v + c, else (value, 0)."""
    node = producers.get(id(value))
    if node is not None and node.op == "add":
        for inner, other in ((node["x"], node["y"]), (node["y"], node["x"])):
            number = _scalar(other)
            if number is not None and inner.type == value.type:
                return inner, number
    return value, 0.0


def _folded(value: Value, producers: Mapping[int, Node], op: str) -> tuple[Value, tuple[int, ...]] | None:
    """(v, axes) when the value is reduction `op` of v over axes, which stay."""
    node = producers.get(id(value))
    if node is None or node.op != op or value.type.rank != node["x"].type.rank:
        return None
    axes = arguments(node).axes("axes", value.type.rank)
    return node["x"], tuple(range(value.type.rank)) if axes is None else axes


def _folded_squares(value: Value, producers: Mapping[int, Node]) -> tuple[Value, tuple[int, ...], bool] | None:
    """(v, axes, whether it is the sum) when the value is the mean or sum of v's squares over axes."""
    found = _folded(value, producers, "reduce_sum_square")
    if found is not None:
        return *found, True
    for op in ("reduce_mean", "reduce_sum"):
        found = _folded(value, producers, op)
        base = None if found is None else _squared(found[0], producers)
        if found is not None and base is not None:
            return base, found[1], op == "reduce_sum"
    return None


def _squared(value: Value, producers: Mapping[int, Node]) -> Value | None:
    node = producers.get(id(value))
    if node is None:
        return None
    if node.op == "square" or (node.op == "pow" and _scalar(node["y"]) == 2.0):
        return node["x"]
    return node["x"] if node.op == "mul" and node["x"] is node["y"] else None


def _scalar(value: Value) -> float | None:
    if not value.constant or value.type.elements != 1 or value.dtype == "string":
        return None
    return float(value.array().reshape(()))


def _as_log_softmax(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    softmax = producers.get(id(node["x"])) if node.op == "log" else None
    if softmax is None or softmax.op != "softmax" or arguments(node).number("epsilon") > SMALL:
        return None
    x, rewriter = softmax["x"], Rewriter(node, names)
    axes = [arguments(softmax).axis("axis", x.type.rank)]
    below = rewriter.single("sub", x=x, y=rewriter.single("reduce_max", x=x, axes=axes, keep_dims=True))
    total = rewriter.single("reduce_sum", x=rewriter.single("exp", x=below), axes=axes, keep_dims=True)
    return rewriter.instead([rewriter.single("sub", x=below, y=rewriter.single("log", x=total))])


def _with_vectors(graph: Graph) -> Graph:
    """Products with and sums of constants over the normalised dimensions go into the norm before them."""
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        for name in NORMS.get(node.op, ()):
            user = only_user(users, outputs, node.output)
            vector = None if user is None else _vector(user, node, name)
            if user is None or vector is None or node.get(name) is not None or \
                    (name == "gamma" and node.get("beta") is not None):
                continue
            gone.add(id(user))
            node = replace(node, operands={**node.operands, name: vector}, outputs=user.outputs)
        nodes.append(node)
    return rebuilt(graph, nodes)


def _vector(user: Node, norm: Node, name: str) -> Value | None:
    """The constant `user` multiplies (gamma) or adds (beta), spread over the normalised dimensions."""
    if user.op != {"gamma": "mul", "beta": "add"}[name] or user.output.type != norm.output.type:
        return None
    constant = user["y"] if user["x"] is norm.output else user["x"]
    axes = arguments(norm).axes("axes", norm.output.type.rank)
    if axes is None:
        axes = tuple(range(norm.output.type.rank))
    if not constant.constant or any(e != 1 and d not in axes for d, e in _dimensions(constant, norm.output)):
        return None
    shape = tuple(norm.output.shape[axis] if axis in axes else 1 for axis in range(norm.output.type.rank))
    full = np.broadcast_to(constant.array(), shape).reshape([norm.output.shape[axis] for axis in axes])
    return Value(constant.name, replace(constant.type, shape=full.shape), np.ascontiguousarray(full))


def _dimensions(constant: Value, result: Value) -> list[tuple[int, int]]:
    """(dimension of the result, extent) of a constant broadcast to it."""
    first = result.type.rank - constant.type.rank
    return [(first + i, extent) for i, extent in enumerate(constant.shape)]
