"""Finds where a PyTorch program sorts tokens by the expert that was chosen for them.

Mixtures of experts are exported as: sort the numbers of the chosen experts, count how many tokens each expert has, put
the tokens into that order, multiply each run of tokens by its expert's matrix (a grouped product), and put them back.
The order serves the grouped product alone; every other order gives the same result. Tokens are therefore left where
they are, and the grouped product is told the number of every token's expert in place of the lengths of runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

GROUPED = ("transformers.grouped_mm_fallback", "aten._grouped_mm")
"""Products of runs of rows, each with a matrix of its own: (rows, matrices, ends of the runs)."""
_COUNTING = {"aten.histc", "aten.bincount", "aten.cumsum", "aten._to_copy", "aten.clone"}
"""What makes the ends of runs of sorted numbers."""


def expert_order(nodes: Iterable[Any]) -> dict[str, str]:
    """What stands for the order of experts, by the name of a node: `sort` for the sorting of the numbers, `numbers`
    for what only counts them."""
    found: dict[str, str] = {}
    for node in nodes:
        if node.op == "call_function" and _named(node) in GROUPED and len(node.args) > 2:
            found |= _of_ends(node.args[2])
    return found


def _of_ends(ends: Any) -> dict[str, str]:
    """The nodes from the sorting to the ends of runs; none where anything else reads a count."""
    counting: list[Any] = []
    node = ends
    while getattr(node, "op", None) == "call_function" and _named(node) in _COUNTING:
        counting.append(node)
        node = node.args[0]
    names = {each.name for each in counting}
    if not counting or getattr(node, "op", None) != "call_function" or node.args[1:] != (0,):
        return {}
    sort = node.args[0]
    if getattr(sort, "op", None) != "call_function" or _named(sort) != "aten.sort":
        return {}
    read = {user.name for each in counting for user in each.users if _named(user) not in
            (*GROUPED, "aten._assert_tensor_metadata")}
    return {sort.name: "sort"} | dict.fromkeys(names, "numbers") if read <= names else {}


def _named(node: Any) -> str:
    return str(node.target).rpartition(".")[0]
