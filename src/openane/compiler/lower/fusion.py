"""What joins another operation's task: post stages behind the neural engine, ReLU before and behind planar tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import get_op

if TYPE_CHECKING:
    from openane.compiler.lower.builder import Compiler


def followers(compiler: Compiler, node: Node, tables: bool = True) -> tuple[Value, Post | None, Table | None]:
    """What may be fused behind a neural-engine operation: the value it then makes, its post stage and table.

    Coefficients computed at run time leave no room for a table: then `tables` is false."""
    value, scale = node.output, 1.0
    biased = node.get("bias") is not None
    while (user := compiler.uses.only_user(value)) is not None:
        post = get_op(user.op).post
        stage = post(user, compiler) if post is not None and user.get("x") is value else None
        if stage is None or (biased and (stage[0].scale != 1.0 or stage[0].bias != 0.0)):
            break
        before, table = stage
        if before.bias != 0.0 or (before.scale != 1.0 and scale != 1.0) or (table is not None and not tables):
            break
        scale *= before.scale
        compiler.fused[id(user)] = node
        value = user.output
        if before.activation is not Activation.NONE:
            return value, Post(scale=scale, activation=before.activation), table
    return value, Post(scale=scale) if scale != 1.0 else None, None


def _is_relu(node: Node) -> bool:
    unary = get_op(node.op).unary
    return unary is not None and unary.relu


def relu_behind(compiler: Compiler, node: Node) -> tuple[Value, bool]:
    """The value a planar operation makes when a ReLU alone reads its result: then (the ReLU's result, True)."""
    user = compiler.uses.only_user(node.output)
    if user is None or not _is_relu(user):
        return node.output, False
    compiler.fused[id(user)] = node
    return user.output, True


def clamps_operand(compiler: Compiler, node: Node) -> bool:
    """Whether a ReLU is done by the planar operation that alone reads its result, as it reads it."""
    user = compiler.uses.only_user(node.output) if _is_relu(node) else None
    arithmetic = None if user is None else get_op(user.op).arithmetic
    if user is None or arithmetic is None or arithmetic.planar is None \
            or any(value.constant for value in user.values()):
        return False
    compiler.clamps[id(node.output)] = node["x"]
    compiler.fused[id(node)] = user
    return True
