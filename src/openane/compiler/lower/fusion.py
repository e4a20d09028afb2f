"""What joins another operation's task: post stages behind the neural engine, ReLU before and behind planar tasks."""

from __future__ import annotations

from openane.compiler.lower.users import Users
from openane.compiler.recipes.context import RecipeContext
from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import get_op
from openane.ops.lowering import Tensor


class Fusion(RecipeContext):
    """Which nodes are not lowered by themselves: `fused` has the node that does it for them, by id."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._clamps: dict[int, Value] = {}
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

    def clamped(self, value: Value) -> tuple[Tensor, bool]:
        """See ops.lowering.Lowering."""
        source = self._clamps.get(id(value))
        return (self.read(value), False) if source is None else (self.read(source), True)

    def clamps_operand(self, node: Node) -> bool:
        """Whether a ReLU is done by the planar operation that alone reads its result, as it reads it."""
        user = self.only_user(node.output) if _is_relu(node) else None
        arithmetic = None if user is None else get_op(user.op).arithmetic
        if user is None or arithmetic is None or arithmetic.planar is None \
                or any(value.constant for value in user.values()):
            return False
        self._clamps[id(node.output)] = node["x"]
        self.fused[id(node)] = user
        return True


def _is_relu(node: Node) -> bool:
    unary = get_op(node.op).unary
    return unary is not None and unary.relu
