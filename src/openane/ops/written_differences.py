"""Functions with small results that models write as a sum or difference with 1: log(1 + x), exp(x) - 1, 1 - erf(x).

Written so they lose the digits that small results have. As one node they can be marked to keep them (Unary.small); one
that is not marked is written out again, since its parts can join what stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.rewriter import Rewriter
from openane.ops.unary import keeps_small

SMALL = 2.0 ** -25
"""What is added to 1 + x and rounds to 0 in fp16 changes nothing."""


def difference_of(node: Node, producers: Mapping[int, Node]) -> tuple[str, Value] | None:
    """(function, x) of the function of x the node ends; None where it is something else."""
    if node.op == "log":
        inner = producers.get(id(node["x"])) if 0 <= arguments(node).number("epsilon") < SMALL else None
        x = None if inner is None or inner.op != "add" else _beside(inner, 1.0)
        return None if x is None else ("log1p", x)
    if node.op == "sub" and scalar(node["x"]) == 1:
        return _of(producers.get(id(node["y"])), "erf", "erfc", node)
    less = node["x"] if node.op == "sub" and scalar(node["y"]) == 1 else \
        _beside(node, -1.0) if node.op == "add" else None
    return None if less is None else _of(producers.get(id(less)), "exp", "expm1", node)


def _of(inner: Node | None, op: str, function: str, node: Node) -> tuple[str, Value] | None:
    same = inner is not None and inner.op == op and inner.output.type == node.output.type
    return (function, inner["x"]) if same and inner is not None else None


def _beside(node: Node, number: float) -> Value | None:
    """What a number is added to, of the shape of the sum."""
    for one, other in ((node["x"], node["y"]), (node["y"], node["x"])):
        if scalar(other) == number and one.type == node.output.type and not one.constant:
            return one
    return None


def written_out(node: Node, names: set[str]) -> tuple[Node, ...] | None:
    """The nodes that one of these functions is written in; None where a node is something else, or keeps small results.
    `names` are those taken, to which new ones are added."""
    if node.op not in WRITTEN or keeps_small(node):
        return None
    rewriter = Rewriter(node, names)
    return rewriter.instead([WRITTEN[node.op](rewriter, node["x"])])


WRITTEN: Mapping[str, Callable[[Rewriter, Value], Value]] = {
    "log1p": lambda rewriter, x: rewriter.single("log", x=rewriter.single("add", x=x, y=1.0), epsilon=0.0),
    "expm1": lambda rewriter, x: rewriter.single("sub", x=rewriter.single("exp", x=x), y=1.0),
    "erfc": lambda rewriter, x: rewriter.single("sub", x=1.0, y=rewriter.single("erf", x=x)),
}
"""How each is written out."""
