"""The MIL operations. Most modules here describe one operation, or a few that are alike, in a tuple `OPS`.

What is known of an operation is written in a record `Op` (see `spec`): its operands, the shape of its result, its
rules, a reference in numpy, how it is lowered to engine operations, its gradient. Modules without `OPS` hold what
several operations share. An operation is added by adding a module: the registry finds it by listing this folder. What
`homes` knows of modules saves importing those that a graph needs nothing of.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pkgutil import iter_modules

from openane.errors import UnsupportedError
from openane.graph import Node
from openane.ops.homes import HOMES
from openane.ops.operands import Arguments, result_types
from openane.ops.registry import Registry, register
from openane.ops.spec import REQUIRED, Op, OperationEvidence, Parameter, Rule

CLOSE = 0.7
"""How alike two names are, of at most 1, that are taken for one misspelt: below it nothing is suggested."""


@cache
def get_op(name: str) -> Op:
    """The operation MIL calls `name`. UnsupportedError names the nearest known ones."""
    try:
        return all_ops()[name]
    except KeyError:
        all_ops().complete()
    found = all_ops().get(name)
    if found is None and name.startswith("random_"):
        raise UnsupportedError(name, "random numbers are not drawn by a program of the engine",
                               remedy="convert the model with its noise as an input, which the caller draws")
    if found is None:
        near = get_close_matches(name, all_ops(), n=3, cutoff=CLOSE)
        raise UnsupportedError(name, "this operation is not described",
                               remedy=f"nearest known: {', '.join(near)}" if near else "`ane ops` lists those that are")
    return found


@cache
def all_ops() -> Registry:
    """Every described operation by name, in alphabetical order."""
    return Registry(__name__, HOMES, sorted(info.name for info in iter_modules(__path__)))


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
