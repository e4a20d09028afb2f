"""Nodes that are carried out within another operation's task: post stages behind the neural engine, ReLU and powers of
two before and behind planar operations."""

from __future__ import annotations

from collections.abc import Sequence

from openane.compiler.lower.users import Users
from openane.compiler.recipes.context import RecipeContext
from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import get_op
from openane.ops.affine import power_of_two
from openane.ops.lowering import Entering


class Fusion(RecipeContext):
    """Knows which nodes are not lowered by themselves: `fused` has, by id of such a node, the node whose task carries
    it out."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._entering: dict[int, list[Node]] = {}
        self._multiplied = set[int]()
        self.fused: dict[int, Node] = {}

    def only_user(self, value: Value) -> Node | None:
        """See recipes.context.RecipeContext."""
        return self._users.only_user(value)

    def followers(self, node: Node, tables: bool = True) -> tuple[Value, Post | None, Table | None]:
        """See ops.lowering.Lowering."""
        value, scale = node.output, 1.0
        scaled = node.get("bias") is not None  # a factor would take the bias with it
        while (stage := self._stage(value, scaled, tables)) is not None:
            user, post, table = stage
            scale *= post.scale
            scaled = scaled or scale != 1.0
            self.fused[id(user)] = node
            value = user.output
            if post.activation is not Activation.NONE:
                return value, Post(scale=scale, activation=post.activation), table
        return value, Post(scale=scale) if scale != 1.0 else None, None

    def _stage(self, value: Value, scaled: bool, tables: bool) -> tuple[Node, Post, Table | None] | None:
        """The node that alone reads a value and can be done as it is written, and how; None where it cannot be: of a
        value that is `scaled` already by another factor, without `tables` by one."""
        user = self.only_user(value)
        post = None if user is None else get_op(user.op).post
        if user is None or post is None or user.get("x") is not value:
            return None
        stage = post(user, self)
        if stage is None or stage[0].bias != 0.0 or (scaled and stage[0].scale != 1.0):
            return None
        return None if stage[1] is not None and not tables else (user, *stage)

    def relu_behind(self, node: Node) -> tuple[Value, bool]:
        """See ops.lowering.Lowering."""
        user = self.only_user(node.output)
        if user is None or not _is_relu(user):
            return node.output, False
        self.fused[id(user)] = node
        return user.output, True

    def scale_and_relu_behind(self, node: Node) -> tuple[Value, float, bool]:
        """See ops.lowering.Lowering."""
        chain = self._chain(self.only_user(node.output))
        self.fused.update((id(each), node) for each in chain)
        return (chain[-1].output if chain else node.output), _scale(chain), any(map(_is_relu, chain))

    def entering(self, value: Value) -> Entering:
        """See ops.lowering.Lowering."""
        chain = self._entering.get(id(value), [])
        tensor = self.read(chain[0]["x"] if chain else value)
        return Entering(tensor, any(map(_is_relu, chain)), _scale(chain))

    def enters(self, node: Node) -> bool:
        """Whether a ReLU, a multiplication by a power of two, or one of each, the first of which is `node`, is done by
        the planar operation that alone reads the result, as it reads it. It multiplies one operand, and there is no
        sense in clamping what is multiplied in a task of its own."""
        chain = self._chain(node)
        user = self.only_user(chain[-1].output) if chain else None
        arithmetic = None if user is None else get_op(user.op).arithmetic
        if user is None or arithmetic is None or arithmetic.planar is None \
                or any(value.constant for value in user.values()):
            return False
        if _scale(chain) != 1:
            if id(user) in self._multiplied:
                return False
            self._multiplied.add(id(user))
        self._entering[id(chain[-1].output)] = chain
        self.fused.update((id(each), user) for each in chain)
        return True

    def _chain(self, node: Node | None) -> list[Node]:
        """The node, and those behind it that alone read what is before them, as far as they are one ReLU and one
        multiplication by a power of two, in any order."""
        chain = list[Node]()
        while node is not None and (_is_relu(node) or power_of_two(node) is not None) \
                and _is_relu(node) not in map(_is_relu, chain):
            chain.append(node)
            node = self.only_user(node.output)
        return chain


def _scale(chain: Sequence[Node]) -> float:
    return next((number for node in chain if (number := power_of_two(node)) is not None), 1.0)


def _is_relu(node: Node) -> bool:
    unary = get_op(node.op).unary
    return unary is not None and unary.relu
