"""Legality rules shared by operations, and how a broken one is reported.

A rule's docstring is the sentence a user reads; names of `Limits` in braces stand for the chip's numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from openane.chips import Limits
from openane.graph import Node, Value
from openane.ops.operands import describe
from openane.ops.spec import Op, Rule

MOVABLE = ("fp16", "fp32", "bool", "int8", "uint8", "int16", "uint16", "int32")
_FLOATS, _MOVABLE = frozenset(["fp16", "fp32"]), frozenset(MOVABLE)


def sentence(rule: Rule, limits: Limits) -> str:
    """The rule in words, with the numbers of `limits` filled in."""
    return " ".join((rule.__doc__ or rule.__name__).split()).format(**asdict(limits))


def broken_rules(op: Op, node: Node, limits: Limits) -> tuple[str, ...]:
    """Sentences of the rules of `op` that `node` breaks."""
    return tuple(sentence(rule, limits) for rule in op.rules if not rule(node, limits))


def engine_rank(node: Node, limits: Limits) -> bool:
    """Tensors must have at most 5 dimensions."""
    return max([len(value.type.shape) for value in tensors(node)], default=0) <= 5


def engine_floats(node: Node, limits: Limits) -> bool:
    """Elements must be fp16 or fp32 (which is computed in fp16)."""
    return _FLOATS.issuperset([value.type.dtype for value in tensors(node)])


def engine_elements(node: Node, limits: Limits) -> bool:
    """Elements must be fp16, fp32, bool, or integers of 8, 16 or 32 bits."""
    return _MOVABLE.issuperset([value.type.dtype for value in tensors(node)])


def tensors(node: Node) -> tuple[Value, ...]:
    """The operands computed while the program runs, and the results."""
    return node.computed() + node.outputs


ENGINE = (engine_floats, engine_rank)
"""What every operation the engine computes must obey."""

MOVED = (engine_elements, engine_rank)
"""What every operation that only moves elements must obey."""


def operands_text(node: Node) -> str:
    """A node's operands for messages: types, and the values of short constants."""
    return ", ".join(_operands(node))


def _operands(node: Node) -> Iterator[str]:
    for name, operand in node.operands.items():
        values = operand if isinstance(operand, tuple) else (operand,)
        yield f"{name}={', '.join(_short(value) for value in values)}"


def _short(value: Value) -> str:
    return str(value.type) if value.data is None or value.type.elements > 8 else describe(value.data)
