"""Which operations a node may end that are written out in others (Op.recognise)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from openane.graph import Node
from openane.ops import all_ops
from openane.ops.spec import Recognise


def endings(node: Node) -> Sequence[Recognise]:
    """What looks for operations whose last node is one like this."""
    return _endings().get(node.op, ())


@cache
def _endings() -> Mapping[str, Sequence[Recognise]]:
    found: dict[str, list[Recognise]] = {}
    for op in all_ops().values():
        for name, look in op.recognise.items():
            found.setdefault(name, []).append(look)
    return found
