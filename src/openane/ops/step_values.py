"""Which tensors of a graph hold whole steps of quantisation: beside WHOLE, from a point that stands for 0, as numbers.

Between two steps the smallest error decides: a network that computes as exactly as fp16 can is a step off here and
there, and so are two programs that compute in fp32. An output whose numbers are steps is judged by these.
"""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Graph, Node, Value
from openane.ops import all_ops
from openane.ops.arithmetic import scalar
from openane.ops.moved import keeps_numbers
from openane.ops.written_steps import NAME, reads_whole_sums, stated_of


def rounds(node: Node) -> bool:
    """Whether it rounds to whole numbers, so that a digit more or less can make another one."""
    op = all_ops().get(node.op)
    return op is not None and (op.rounds or node.op == "round")


def counted(graph: Graph) -> dict[int, float]:
    """By id, the values that count whole steps beside WHOLE, each so many times: the distances that fp16 has there
    round them."""
    return {key: stated_of(users[0], "parts") for key, users in graph.users().items()
            if users and all(map(reads_whole_sums, users))}


def beside_zero(node: Node, offsets: Mapping[int, float]) -> float:
    """What is added to every number of a node's result that means something else, the point that stands for 0: by the
    node itself, or where it only moves numbers, by what made these. `offsets`: of results so far, by id."""
    if node.op == NAME:
        return stated_of(node, "zero") * stated_of(node, "scale")
    moved = node.computed() if keeps_numbers(node) else ()
    found = {offsets.get(id(value), 0.0) for value in moved}
    return found.pop() if len(found) == 1 else 0.0


def step_sizes(graph: Graph) -> dict[str, float]:
    """By name, the largest step of outputs whose numbers are whole steps of quantisation, moved since or not."""
    makers = graph.producers()
    found = {value.name: _size(value, makers) for value in graph.outputs}
    return {name: size for name, size in found.items() if size}


def _size(value: Value, makers: Mapping[int, Node]) -> float:
    """0 for numbers that are no steps."""
    waiting, sizes = [(value, 1.0)], [0.0]
    while waiting:
        value, times = waiting.pop()
        node = makers.get(id(value))
        factor = None if node is None else _factor(node)
        if node is None or factor is None:
            return 0.0
        times *= factor
        if node.op == NAME:
            sizes.append(times)
        else:
            waiting += [(each, times) for each in node.values() if not each.constant]
    return max(sizes)


def _factor(node: Node) -> float | None:
    """How many times larger a node makes steps, or what it makes one; None where its numbers are no steps."""
    if node.op == NAME:
        return abs(stated_of(node, "scale"))
    if keeps_numbers(node):
        return 1.0
    number = scalar(node["y"]) if node.op in ("add", "sub", "mul") else None
    return None if number is None else abs(number) if node.op == "mul" else 1.0
