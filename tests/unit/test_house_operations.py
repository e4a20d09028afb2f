"""A rule of the house, held by reading the source: what an operation is, its record says, not its name.

Names of MIL operations are written in ops/, which describes them, in importers/, which translate to them, and wherever
a graph is built: the builder refuses a wrong one. Nobody else tells operations apart by them. A new operation then
takes part in all its traits allow, and no list elsewhere has to be found and made longer.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from openane.ops import all_ops

SOURCE = Path(__file__).parents[2] / "src" / "openane"
NAMES = frozenset(all_ops())
ROOMS = ("ops/", "importers/")
PLACES = {
    "compiler/partition/hosting.py": "operations that a user lets the host compute, by name",
    "graph/mil/": "MIL text: constants are written as an operation `const`",
    "graph/states.py": "reads and writes of states, which are gone before operations are looked at",
    "models/layers.py": "activations by the names that published configurations give them",
    "models/activations.py": "activations by the names that published configurations give them",
    "models/rope.py": "kinds of angles by the names that published configurations give them",
    "training/networks/layers.py": "the words by which a configuration describes a network",
}
"""Where an operation may be told by its name besides, and why. Everywhere else one asks its record (ops.spec.Op)."""


@cache
def asked() -> dict[str, list[tuple[int, str]]]:
    """What `questions_by_name` finds in every module, by its path below the package."""
    return {path.relative_to(SOURCE).as_posix(): list(questions_by_name(ast.parse(path.read_text())))
            for path in sorted(SOURCE.rglob("*.py"))}


def _held(node: ast.AST) -> list[ast.AST]:
    """The elements of a list, tuple or set, the keys of a table."""
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple | ast.Set) else []


def _is_op(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "op"


def _question(node: ast.AST, named: Callable[[ast.AST], bool]) -> str:
    """How the expression tells an operation by its name; empty where it does not. A node's `op` may be compared with
    another node's, handed on, and looked up in the registry."""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        if any(named(inner) for side in sides for inner in (side, *_held(side))):
            return "a comparison with the name of an operation"
        known = any(map(_is_op, sides)) and [_is_op(side) or "all_ops" in ast.unparse(side) for side in sides]
        return "a comparison of a node's operation" if known and not all(known) else ""
    if isinstance(node, ast.Subscript | ast.Match):
        asked = node.slice if isinstance(node, ast.Subscript) else node.subject
        return "a choice by operation" if _is_op(asked) else ""
    if not isinstance(node, ast.Call):
        return ""
    function, first = node.func, node.args[:1]
    if isinstance(function, ast.Name):
        unchecked = function.id == "Node" and any(map(named, first))
        return "a node made of a name, which no builder checks" if unchecked else ""
    if isinstance(function, ast.Attribute) and _is_op(function.value):
        return "a question about the letters of a name"
    lookup = isinstance(function, ast.Attribute) and function.attr == "get" and any(map(_is_op, first))
    return "a choice by operation" if lookup and "all_ops" not in ast.unparse(function) else ""


def questions_by_name(tree: ast.Module, names: frozenset[str] = NAMES) -> Iterator[tuple[int, str]]:
    """(line, what) wherever an operation is told by its name, and constants that are lists or tables of nothing but
    names of operations."""
    def named(node: ast.AST) -> bool:
        return isinstance(node, ast.Constant) and node.value in names

    for node in ast.walk(tree):
        if what := _question(node, named):
            yield getattr(node, "lineno", 0), what
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for statement in (each for body in bodies for each in body if isinstance(each, ast.Assign | ast.AnnAssign)):
        for node in ast.walk(statement):
            if (held := _held(node)) and all(map(named, held)):
                yield statement.lineno, "a list or table of names of operations"


def test_only_ops_and_importers_tell_operations_by_name() -> None:
    wrong = [f"{name}:{line} has {what}" for name, found in asked().items() if not name.startswith((*ROOMS, *PLACES))
             for line, what in found]
    assert not wrong, "ask get_op(node.op) for what is true of it (a new trait, if need be):\n" + "\n".join(wrong)


def test_no_more_files_than_needed_may_tell_operations_by_name() -> None:
    needed = {place for name, found in asked().items() for place in PLACES if name.startswith(place) and found}
    assert needed == set(PLACES)


@pytest.mark.parametrize("code", [
    'if node.op == "conv": pass', 'if node.op in ("add", "conv"): pass', 'if before.op not in {"conv"}: pass',
    'if kind == "layer_norm": pass', "if node.op == NORM: pass", "if node.op in TABLE: pass", "TABLE[node.op]",
    "TABLE.get(node.op, 0)", 'node.op.startswith("gather")', 'match node.op:\n    case "conv": pass',
    'PRODUCTS = ("conv", "linear")', 'SUMS: Mapping[str, str] = {"softmax": "exp"}', 'LAYOUT = A | frozenset({"tile"})',
    'class Table:\n    kinds = ["mul"]', 'Node("identity", {}, ())'])
def test_a_question_by_name_is_found(code: str) -> None:
    assert list(questions_by_name(ast.parse(code)))


@pytest.mark.parametrize("code", [
    "if get_op(node.op).sums_products: pass", "if first.op == second.op: pass", "if node.op in all_ops(): pass",
    "all_ops().get(node.op)", 'builder.single("conv", x=x)', 'DOCUMENT = {"shape": shape, "dtype": dtype}',
    "builder.add(node.op, x=x)", 'run({"relu": True})'])
def test_building_and_asking_the_record_are_no_questions_by_name(code: str) -> None:
    assert not list(questions_by_name(ast.parse(code)))
