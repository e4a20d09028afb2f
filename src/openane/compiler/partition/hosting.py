"""What the host may compute of a graph where the engine cannot.

The engine's addresses cannot depend on data and it does not compute with integers, so the embedding of a token, and the
positions of tokens that are computed from their numbers, run on the host unless somebody forbids it. Everything else is
refused until the host is allowed to do it: nobody should find out from a clock that a convolution is not on the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence

from openane.errors import UnsupportedError
from openane.graph import Node, Value
from openane.ops import all_ops, get_op
from openane.record_classes import dataclass

LOOKUPS = "lookups"
"""What the host does unless it is said otherwise: lookups at positions that are computed, and integers."""
AllowHost = bool | str | Collection[str]
"""What the host may compute: `LOOKUPS`, everything (True), nothing (False), or MIL operations by name; several between
commas, or one by one, `LOOKUPS` among them."""
INTEGERS = "int32"
"""The element type of positions."""
COUNTED = 2048
"""Up to here fp16, in which the engine computes, holds every whole number."""
FAR = f"Its integers are positions in a table of more than {COUNTED} rows, or their bits are read; fp16 holds whole " \
      f"numbers up to {COUNTED}."
COMPUTED = f"Its integers are computed on the host, and fp16 holds whole numbers up to {COUNTED}."


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Which operations the host may take: all of them, those called by a name, or lookups and integers."""

    everything: bool
    lookups: bool
    names: frozenset[str]

    @staticmethod
    def of(allowed: AllowHost) -> HostPolicy:
        """What `allowed` says. UnsupportedError for a name that is no MIL operation."""
        if isinstance(allowed, bool):
            return HostPolicy(allowed, False, frozenset())
        given = allowed.split(",") if isinstance(allowed, str) else allowed
        names = frozenset(name.strip() for name in given)
        for name in sorted(names - {LOOKUPS}):
            if name not in all_ops():
                raise UnsupportedError(f"allow_host {name!r}", f"this is no MIL operation, nor {LOOKUPS!r}",
                                       remedy="ane ops lists the operations; True allows all, False none")
        return HostPolicy(False, LOOKUPS in names, names - {LOOKUPS})

    @property
    def nothing(self) -> bool:
        """Whether the host may do nothing at all."""
        return not (self.everything or self.lookups or self.names)

    def allows(self, node: Node) -> bool:
        """Whether the host may compute the node if the engine cannot."""
        return self.everything or node.op in self.names or (self.lookups and (
            _positions(node) is not None or _integers(node)))

    def rounds(self, node: Node) -> bool:
        """Whether the host may compute the node where fp16 does not hold the digits of what it rounds."""
        return self.everything or self.lookups or node.op in self.names

    @property
    def said(self) -> tuple[bool, bool, tuple[str, ...]]:
        """The policy as plain data, equal where it is."""
        return self.everything, self.lookups, tuple(sorted(self.names))


def with_far_positions(nodes: Sequence[Node], hosted: Container[int]) -> dict[int, str]:
    """By id, why more nodes run on the host: those that make or read integers that are other numbers in fp16, positions
    that the host looks up in a long table and integers whose bits it reads."""
    here = [node for node in nodes if id(node) in hosted]
    if not here:
        return {}
    far, known = {id(value) for node in here for value in _exact(node)}, -1
    while len(far) != known:
        known = len(far)
        for node in nodes:
            far.update(map(id, _as_far(node, far)))
    found = {id(node): FAR for node in nodes
             if id(node) not in hosted and not far.isdisjoint(map(id, (*node.values(), *node.outputs)))}
    return found | _with_computed(nodes, {*found, *map(id, here)})


def _with_computed(nodes: Sequence[Node], hosted: Container[int]) -> dict[int, str]:
    """By id, why more nodes run on the host: those that read integers the host computed, and what is computed of them
    in turn. Products and sums of integers soon are numbers fp16 does not hold."""
    computed: set[int] = set()
    found: dict[int, str] = {}
    for node in nodes:
        reads = any(id(value) in computed for value in node.values())
        if reads and id(node) not in hosted:
            found[id(node)] = COMPUTED
        if reads or (id(node) in hosted and (_integers(node) or _counts_far(node))):
            computed.update(id(value) for value in node.outputs
                            if value.dtype == INTEGERS and _positions(node) is None)
    return found


def _counts_far(node: Node) -> bool:
    """Whether the integers a node makes of other numbers, as positions of the largest are, may be beyond fp16."""
    return max((extent for value in node.values() for extent in value.shape), default=0) > COUNTED


def _exact(node: Node) -> Iterator[Value]:
    """Integers of a node that must be those they are: positions in a long table, and those whose bits it reads."""
    if get_op(node.op).sees_bits:
        yield from (value for value in (*node.values(), *node.outputs) if not value.constant)
    at, table = _positions(node), node.get("x") or node.get("data")
    if at is not None and at.dtype == INTEGERS and table is not None and max(table.shape, default=0) > COUNTED:
        yield at


def _as_far(node: Node, far: Container[int]) -> Iterator[Value]:
    """The integers of a node that reach as far as those in `far`: what one of these is computed from, and what is
    computed from it. What is looked up does not."""
    if any(id(value) in far for value in node.outputs):
        yield from (value for value in node.values() if not value.constant and value.dtype == INTEGERS)
    if _positions(node) is None and any(id(value) in far for value in node.values()):
        yield from (value for value in node.outputs if value.dtype == INTEGERS)


def _positions(node: Node) -> Value | None:
    """The places from which a node takes elements, or where it puts them, where another operation, or the user, gives
    them."""
    name = get_op(node.op).positions
    found = node.get(name) if name else None
    return None if found is None or found.constant else found


def _integers(node: Node) -> bool:
    """Whether the node computes with integers that are known when the program runs."""
    return any(value.dtype == INTEGERS for value in node.values() if not value.constant)
