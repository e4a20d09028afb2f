"""Which operations a node may end that are written out in others (Op.recognise)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from openane.graph import Node
from openane.ops import all_ops, get_op
from openane.ops.homes import ENDINGS
from openane.ops.spec import Recognise


def endings(node: Node) -> Sequence[Recognise]:
    """What looks for operations whose last node is one like this."""
    return _endings(node.op)


@cache
def _endings(last: str) -> Sequence[Recognise]:
    added = [op.name for op in all_ops().unstated.values() if last in op.recognise]
    return [get_op(name).recognise[last] for name in sorted((*ENDINGS.get(last, ()), *added))]
