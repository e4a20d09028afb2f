"""Who makes and who reads each value of a graph."""

from __future__ import annotations

from openane.graph import Graph, Node, Value


class Users:
    """The nodes around each value, found once."""

    def __init__(self, graph: Graph) -> None:
        self._users = graph.users()
        self.producers = graph.producers()
        self._outputs = {id(value) for value in graph.outputs}

    def only_user(self, value: Value) -> Node | None:
        """The one node that reads `value`; None when there are more, or it is an output."""
        users = self._users.get(id(value), [])
        return users[0] if len(users) == 1 and id(value) not in self._outputs else None
