"""Layer normalisation whose variance is the mean of squares less the square of the mean, found by its last operation.

Flax writes it so, to read x once: (x - m) * (gamma / root(max(0, mean(x * x) - m * m) + epsilon)). In fp16 the squares
overflow and the difference of two large numbers is lost; as one operation the norm is computed from x - m.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, prod

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.rewriter import Rewriter
from openane.ops.written_norms import Norm, factors, layer_norm_of, reciprocal_root, squared, with_epsilon

VIEWS = frozenset(["expand_dims", "identity", "reshape", "squeeze"])
CLOSE = 1e-3
"""How far a count may be from what fp16 holds of its reciprocal, relatively."""


def any_layer_norm_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """Layer normalisation, however its variance is written, whose last step the node is."""
    return layer_norm_of(node, names, producers) or _fast(node, names, producers)


def _fast(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    for numerator, gain in ((node["x"], node["y"]), (node["y"], node["x"])) if node.op == "mul" else ():
        centred, (root, gamma) = producers.get(id(numerator)), factors(gain, producers)
        found = None if centred is None or centred.op != "sub" else _norm(centred, root, producers)
        if found is None or found.x.type != node.output.type:
            continue
        rewriter = Rewriter(node, names)
        made = rewriter.single("layer_norm", x=found.x, axes=list(found.axes), epsilon=found.epsilon)
        return rewriter.instead([made if gamma is None else rewriter.single("mul", x=made, y=gamma)])
    return None


def _norm(centred: Node, root: Value, producers: Mapping[int, Node]) -> Norm | None:
    """The norm of what a node takes the mean from, when `root` is the reciprocal root of its variance."""
    average, spread = _mean(centred["y"], producers), reciprocal_root(_seen(root, producers), producers)
    if average is None or spread is None or average[0] is not centred["x"]:
        return None
    x, axes = average
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    inner, epsilon = with_epsilon(spread[0], producers)
    if not centred["y"].shape == root.shape == kept or not _is_variance(inner, x, axes, producers):
        return None
    return Norm("layer_norm", x, axes, epsilon + spread[1])


def _is_variance(value: Value, x: Value, axes: tuple[int, ...], producers: Mapping[int, Node]) -> bool:
    """Whether the value is the mean of x's squares less the square of its mean, at least 0 or not."""
    node = producers.get(id(_seen(value, producers)))
    if node is not None and node.op == "maximum":
        computed, bound = (node["x"], node["y"]) if node["y"].constant else (node["y"], node["x"])
        node = producers.get(id(_seen(computed, producers))) if scalar(bound) == 0 else None
    if node is None or node.op != "sub":
        return False
    squares = _mean(node["x"], producers)
    base = squared(_seen(node["y"], producers), producers)
    average = None if base is None else _mean(base, producers)
    if squares is None or average is None or not squares[1] == average[1] == axes:
        return False
    return squared(squares[0], producers) is x and average[0] is x


def _mean(value: Value, producers: Mapping[int, Node]) -> tuple[Value, tuple[int, ...]] | None:
    """(v, axes) when the value holds the means of v over axes: a mean, or a sum by how many are summed."""
    node = producers.get(id(_seen(value, producers)))
    if node is None or node.op == "reduce_mean":
        return None if node is None else _reduced(node)
    pairs = {"mul": ((node.get("x"), node.get("y")), (node.get("y"), node.get("x"))),
             "real_div": ((node.get("x"), node.get("y")),)}.get(node.op, ())
    for total, number in pairs:
        summed = None if total is None else producers.get(id(_seen(total, producers)))
        share = None if number is None else scalar(number)
        if summed is None or summed.op != "reduce_sum" or not share:
            continue
        x, axes = _reduced(summed)
        count = prod(x.shape[axis] for axis in axes)
        if isclose(share if node.op == "real_div" else 1 / share, count, rel_tol=CLOSE):
            return x, axes
    return None


def _reduced(node: Node) -> tuple[Value, tuple[int, ...]]:
    """What a reduction reduces, and over which axes."""
    rank = node["x"].type.rank
    axes = arguments(node).axes("axes", rank)
    return node["x"], tuple(range(rank)) if axes is None else tuple(axes)


def _seen(value: Value, producers: Mapping[int, Node]) -> Value:
    """What the value is another shape of."""
    node = producers.get(id(value))
    while node is not None and node.op in VIEWS:
        value = node["x"]
        node = producers.get(id(value))
    return value
