"""The MIL operations. Most modules here describe one operation, or a few that are alike, in a tuple `OPS`.

What is known of an operation is written in a record `Op` (see `spec`): its operands, the shape of its result, its
rules, a reference in numpy, how it is lowered to engine operations, its gradient. Modules without `OPS` hold what
several operations share. An operation is added by adding a module: the registry finds it by listing this folder.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from openane.errors import GraphError, UnsupportedError
from openane.graph import Node
from openane.ops.operands import Arguments, result_types
from openane.ops.spec import REQUIRED, Op, OperationEvidence, Parameter, Rule

Registry = MappingProxyType[str, Op]
CLOSE = 0.7
"""How alike two names are, of at most 1, that are taken for one misspelt: below it nothing is suggested."""


def get_op(name: str) -> Op:
    """The operation MIL calls `name`. UnsupportedError names the nearest known ones."""
    known = all_ops()
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=CLOSE)
        raise UnsupportedError(name, "this operation is not described",
                               remedy=f"nearest known: {', '.join(near)}" if near else "`ane ops` lists those that are")
    return known[name]


@cache
def all_ops() -> Registry:
    """Every described operation by name, in alphabetical order."""
    found: list[Op] = []
    for module in sorted(info.name for info in iter_modules(__path__)):
        found.extend(getattr(import_module(f"{__name__}.{module}"), "OPS", ()))
    return register(found)


def register(ops: list[Op]) -> Registry:
    """A table by name. GraphError when two operations share one, or an operation repeats a parameter."""
    table: dict[str, Op] = {}
    for op in sorted(ops, key=lambda op: op.name):
        if op.name in table:
            raise GraphError(f"{op.name}: described twice")
        names = [parameter.name for parameter in op.parameters]
        if len(set(names)) != len(names):
            raise GraphError(f"{op.name}: a parameter is listed twice ({', '.join(names)})")
        table[op.name] = op
    return MappingProxyType(table)


def arguments(node: Node) -> Arguments:
    """A node's operands, read by name with defaults resolved. UnsupportedError for an unknown operation."""
    return Arguments(node.op, get_op(node.op).parameters, node.operands)


__all__ = [
    "REQUIRED",
    "Arguments",
    "Op",
    "OperationEvidence",
    "Parameter",
    "Registry",
    "Rule",
    "all_ops",
    "arguments",
    "get_op",
    "register",
    "result_types",
]
