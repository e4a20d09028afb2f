"""Normalisations that are written out in other operations, found by their last one.

Layer normalisation: (x - mean(x)) over the root of the mean of its square plus epsilon; over the dimensions a reshape
has set apart it is group normalisation. The same without the mean is RMS normalisation, and with a sum in place of the
mean RMS normalisation and a scale. The root may be rsqrt, a power of -0.5, or a division by sqrt or by an L2 norm kept
above a small number; the square mul, square or pow. x * g + (beta - mean(x) * g) with g = gamma / root, as Keras writes
it, is read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.rewriter import Rewriter

SMALL = 1e-4
"""What is added or kept below it only guards against a division by zero."""


@dataclass(frozen=True, slots=True)
class Norm:
    """op over `axes` of `x`; `total`: by the root of the sum of squares plus epsilon, not of their mean."""

    op: str
    x: Value
    axes: tuple[int, ...]
    epsilon: float
    total: bool = False


def layer_norm_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """Layer normalisation whose last step the node is."""
    norm = _norm(node, producers)
    if norm is not None and norm.op == "layer_norm":
        return _made(norm, node, names)
    return _as_moments(node, names, producers)


def rms_norm_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """RMS normalisation whose last step the node is."""
    norm = _norm(node, producers) or _unit(node, producers)
    return _made(norm, node, names) if norm is not None and norm.op == "rms_norm" else None


def _made(norm: Norm, node: Node, names: set[str]) -> tuple[Node, ...] | None:
    if norm.x.type != node.output.type:
        return None
    rewriter, count = Rewriter(node, names), prod(norm.x.shape[axis] for axis in norm.axes)
    epsilon = norm.epsilon / count if norm.total else norm.epsilon
    made = rewriter.single(norm.op, x=norm.x, axes=list(norm.axes), epsilon=epsilon)
    return rewriter.instead([rewriter.single("mul", x=made, y=count ** -0.5) if norm.total else made])


def _norm(node: Node, producers: Mapping[int, Node]) -> Norm | None:
    """The normalisation whose last step `node` is."""
    for numerator, spread in _quotients(node, producers):
        inner, epsilon = with_epsilon(spread[0], producers)
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
    small = scalar(bounded["y"])
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
            rewriter, gamma = Rewriter(node, names), factors(gain, producers)[1]
            made = rewriter.single("layer_norm", x=x, axes=list(norm.axes), epsilon=norm.epsilon)
            made = made if gamma is None else rewriter.single("mul", x=made, y=gamma)
            return rewriter.instead([rewriter.single("add", x=made, y=shift["x"])])
    return None


def _centred(x: Value, gain: Value, back: Value, producers: Mapping[int, Node]) -> Norm | None:
    """The norm of x when `back` is mean(x) * gain and gain the reciprocal root of x's variance times a constant."""
    product, root = producers.get(id(back)), reciprocal_root(factors(gain, producers)[0], producers)
    if product is None or product.op != "mul" or root is None or gain not in (product["x"], product["y"]):
        return None
    mean = product["y"] if product["x"] is gain else product["x"]
    average, (inner, epsilon) = _folded(mean, producers, "reduce_mean"), with_epsilon(root[0], producers)
    if average is None or average[0] is not x or average[1] != _variance_axes(inner, x, mean, producers):
        return None
    return Norm("layer_norm", x, average[1], epsilon + root[1])


def _variance_axes(value: Value, x: Value, mean: Value, producers: Mapping[int, Node]) -> tuple[int, ...] | None:
    """The axes over which the value is the mean of (x - mean)^2; None when it is something else."""
    squares = _folded_squares(value, producers)
    difference = None if squares is None or squares[2] else producers.get(id(squares[0]))
    if squares is None or difference is None or difference.op != "sub":
        return None
    return squares[1] if difference["x"] is x and difference["y"] is mean else None


def factors(gain: Value, producers: Mapping[int, Node]) -> tuple[Value, Value | None]:
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
    pairs = ((x, reciprocal_root(y, producers)), (y, reciprocal_root(x, producers)))
    return [(numerator, root) for numerator, root in pairs if root is not None]


def _root(node: Node | None, exponent: float) -> tuple[Value, float] | None:
    """(v, epsilon) when the node is (v + epsilon) ^ exponent, a half or minus a half."""
    if node is None:
        return None
    if node.op == "pow" and scalar(node["y"]) == exponent:
        return node["x"], 0.0
    if node.op == "sqrt" and exponent == 0.5:
        return node["x"], 0.0
    if node.op == "rsqrt" and exponent == -0.5:
        return node["x"], arguments(node).number("epsilon")
    return None


def reciprocal_root(value: Value, producers: Mapping[int, Node]) -> tuple[Value, float] | None:
    """(v, epsilon) when the value is (v + epsilon) ^ -0.5, however that is written."""
    node = producers.get(id(value))
    if node is None:
        return None
    if node.op == "real_div" and scalar(node["x"]) == 1.0:
        return _root(producers.get(id(node["y"])), 0.5)
    if node.op == "inverse" and arguments(node).number("epsilon") <= SMALL:
        return _root(producers.get(id(node["x"])), 0.5)
    return _root(node, -0.5)


def with_epsilon(value: Value, producers: Mapping[int, Node]) -> tuple[Value, float]:
    """(v, c) when the value is v + c, else (value, 0)."""
    node = producers.get(id(value))
    if node is not None and node.op == "add":
        for inner, other in ((node["x"], node["y"]), (node["y"], node["x"])):
            number = scalar(other)
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
        base = None if found is None else squared(found[0], producers)
        if found is not None and base is not None:
            return base, found[1], op == "reduce_sum"
    return None


def squared(value: Value, producers: Mapping[int, Node]) -> Value | None:
    """What the value is the square of."""
    node = producers.get(id(value))
    if node is None:
        return None
    if node.op == "square" or (node.op == "pow" and scalar(node["y"]) == 2.0):
        return node["x"]
    return node["x"] if node.op == "mul" and node["x"] is node["y"] else None
