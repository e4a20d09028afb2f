"""Softmax, and logarithms of sums of exponentials, that are written out in other operations, found by their last one.

exp(x) is beyond fp16 from 11.1 on. Divided by its sum it is a softmax, which takes the largest x off first, as the
logarithm of its sum then does; what is subtracted of x that does not differ along the axis makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

LONGEST = 1 << 15
"""Elements one sum of exponentials may have: it is an fp16 number between 1 and their count."""
SMALL = 1e-4
"""An epsilon below it does not change what fp16 keeps of a sum of exponentials that is 1 at least."""
MOST = 32
"""How many operations may lie between a largest number and the difference to it: some leave infinities out."""
VIEWS = frozenset(["expand_dims", "identity", "reshape", "squeeze", "tile"])


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of exponentials of `x` over `axes`."""

    x: Value
    axes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Exponentials to a sum."""
        return prod(self.x.shape[axis] for axis in self.axes)


def softmax_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """The softmax whose last step the node is."""
    for powers, total in _quotients(node, producers):
        exponential, added = producers.get(id(powers)), _summed(total, producers)
        if exponential is None or exponential.op != "exp" or added is None or exponential["x"].type != node.output.type:
            continue
        x = exponential["x"]
        if _same(x, added.x, producers) and _aligned(total, added):
            return _softmax(node, names, x, added, producers)
    return None


def _softmax(node: Node, names: set[str], x: Value, added: Sum,
             producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """The softmax of x over one axis; over several its parts, the largest taken off where it was not."""
    rewriter = Rewriter(node, names)
    real = [axis for axis in added.axes if x.shape[axis] > 1] or list(added.axes[:1])
    if len(real) == 1:
        x = _without_constants(x, real[0], producers)
        return rewriter.instead([rewriter.single("softmax", x=x, axis=real[0])])
    if _below_largest(x, added.axes, producers):
        return None
    shares = rewriter.single("exp", x=_below(rewriter, x, added.axes)[0])
    whole = rewriter.single("reduce_sum", x=shares, axes=list(added.axes), keep_dims=True)
    return rewriter.instead([rewriter.single("real_div", x=shares, y=whole)])


def log_sum_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """The logarithm of a sum of exponentials that the node is, the largest taken off first."""
    if node.op != "reduce_log_sum" and (node.op != "log" or arguments(node).number("epsilon") > SMALL):
        return None
    added = _summed(node["x"], producers)
    if added is None or added.count > LONGEST or _below_largest(added.x, added.axes, producers) or \
            node["x"].type.elements != added.x.type.elements // added.count:
        return None
    rewriter = Rewriter(node, names)
    less, largest = _below(rewriter, added.x, added.axes)
    total = rewriter.single("reduce_sum", x=rewriter.single("exp", x=less), axes=list(added.axes), keep_dims=True)
    result = rewriter.single("add", x=rewriter.single("log", x=total), y=largest)
    if result.shape != node.output.shape:
        result = rewriter.single("reshape", x=result, shape=list(node.output.shape))
    return rewriter.instead([result])


def _below(rewriter: Rewriter, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """x less its largest over the axes, and that."""
    largest = rewriter.single("reduce_max", x=x, axes=list(axes), keep_dims=True)
    return rewriter.single("sub", x=x, y=largest), largest


def _quotients(node: Node, producers: Mapping[int, Node]) -> list[tuple[Value, Value]]:
    """(dividend, divisor) for each way to read the node as a quotient."""
    if node.op == "real_div":
        return [(node["x"], node["y"])]
    found = []
    for dividend, factor in ((node["x"], node["y"]), (node["y"], node["x"])) if node.op == "mul" else ():
        inverse = producers.get(id(factor))
        if inverse is not None and inverse.op == "inverse" and arguments(inverse).number("epsilon") <= SMALL:
            found.append((dividend, inverse["x"]))
        if inverse is not None and inverse.op == "real_div" and scalar(inverse["x"]) == 1:
            found.append((dividend, inverse["y"]))
    return found


def _summed(value: Value, producers: Mapping[int, Node]) -> Sum | None:
    """The sum of exponentials a value holds, in whatever shape, or repeated along the axes."""
    node = producers.get(id(value))
    while node is not None and node.op in VIEWS:
        node = producers.get(id(node["x"]))
    exponential = None if node is None or node.op != "reduce_sum" else producers.get(id(node["x"]))
    if node is None or exponential is None or exponential.op != "exp":
        return None
    x = exponential["x"]
    axes = arguments(node).axes("axes", x.type.rank)
    return Sum(x, tuple(range(x.type.rank)) if axes is None else tuple(sorted(axes)))


def _aligned(total: Value, added: Sum) -> bool:
    """Whether a sum lies beside what it is the sum of: its dimensions there, 1 or repeated along the axes."""
    shape = (1,) * (added.x.type.rank - total.type.rank) + total.shape
    return len(shape) == added.x.type.rank and all(
        found == extent or (axis in added.axes and found == 1)
        for axis, (found, extent) in enumerate(zip(shape, added.x.shape, strict=True)))


def _same(first: Value, second: Value, producers: Mapping[int, Node]) -> bool:
    """Whether two values are the same, or the same operation of the same values."""
    if first is second:
        return True
    one, other = producers.get(id(first)), producers.get(id(second))
    if one is None or other is None or one.op != other.op or one.operands.keys() != other.operands.keys():
        return False
    return one.op in ("sub", "add", "mul") and all(one[name] is other[name] for name in ("x", "y"))


def _without_constants(x: Value, axis: int, producers: Mapping[int, Node]) -> Value:
    """What x is the difference of, when what is subtracted is the same along the axis."""
    node = producers.get(id(x))
    while node is not None and node.op == "sub" and node["x"].type == x.type:
        shape = (1,) * (x.type.rank - node["y"].type.rank) + node["y"].shape
        if shape[axis] != 1:
            break
        x = node["x"]
        node = producers.get(id(x))
    return x


def _below_largest(x: Value, axes: Sequence[int], producers: Mapping[int, Node]) -> bool:
    """Whether x is something less its largest over the axes, which then is 0."""
    node = producers.get(id(x))
    if node is None or node.op != "sub":
        return False
    kept = (1,) * (x.type.rank - node["y"].type.rank) + node["y"].shape
    waiting, seen = [node["y"]], 0
    while waiting and seen < MOST:
        made, seen = producers.get(id(waiting.pop())), seen + 1
        if made is not None and made.op == "reduce_max":
            return made["x"] is node["x"] and all(kept[axis] == 1 for axis in axes)
        waiting += () if made is None else made.values()
    return False
