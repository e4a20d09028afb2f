"""A rule of the house, held by reading the source: a function decides at most twelve things.

A decision is an `if`, `elif`, `for`, `while`, `except` or `case`, a conditional expression, an `if` or `for` of a
comprehension, and every operand of `and` and `or` behind the first. Functions within a function count as parts of it.
Where a flat list of cases is clearer whole, the comment `# decisions: <reason>` stands on the line of the `def` or
right above it. `functions_above.txt` lists the functions that are still above: it can only become shorter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "openane"
LISTED = Path(__file__).with_name("functions_above.txt")
MOST = 12
EXCUSE = re.compile(r"#\s*decisions: \w+ \w+")
"""A reason has at least two words."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def decisions(function: ast.AST) -> int:
    """How many things a function decides."""
    return sum(_weight(node) for node in ast.walk(function))


def _weight(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(isinstance(node, ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler
                          | ast.match_case))


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, Function]]:
    """Every function that is not within another, with the name of its class before its own."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield owner + node.name, node
        else:
            yield from functions(node, f"{owner}{node.name}." if isinstance(node, ast.ClassDef) else owner)


def excused(function: Function, lines: list[str]) -> bool:
    """Whether a comment at the definition says why the function is above."""
    top = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return any(EXCUSE.search(line) for line in lines[max(0, top - 2):function.body[0].lineno - 1])


def above(text: str) -> Iterator[tuple[str, int]]:
    """(name, decisions) of the functions of a source text that decide too much."""
    lines = text.splitlines()
    for name, function in functions(ast.parse(text)):
        count = decisions(function)
        if count > MOST and not excused(function, lines):
            yield name, count


def test_functions_decide_at_most_twelve_things() -> None:
    found = {f"{path.relative_to(SOURCE).as_posix()} {name}": count for path in sorted(SOURCE.rglob("*.py"))
             for name, count in above(path.read_text())}
    listed = set(LISTED.read_text().splitlines())
    wrong = [f"{name} decides {count} things" for name, count in found.items() if name not in listed]
    assert not wrong, f"at most {MOST}; split what these do:\n" + "\n".join(wrong)
    assert not listed - found.keys(), f"no longer above, take them off {LISTED.name}"


BODIES = {
    "if": "if a:\n    pass\n" * 12,
    "elif": "if a:\n    pass\n" + "elif a:\n    pass\n" * 11,
    "for": "for i in a:\n    pass\n" * 12,
    "while": "while a:\n    pass\n" * 12,
    "conditional expression": "b = 1 if a else 2\n" * 12,
    "and": "b = " + " and ".join("a" * 13) + "\n",
    "or": "b = " + " or ".join("a" * 13) + "\n",
    "except": "try:\n    pass\n" + "except KeyError:\n    pass\n" * 12,
    "comprehension": "b = [i for i in a if i]\n" * 6,
    "generator": "b = set(i for i in a if i if a)\n" * 4,
    "case": "match a:\n" + "    case 1:\n        pass\n" * 12,
    "function within": "def g():\n    if a:\n        pass\n" * 12,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_thirteenth_decision_is_found(body: str) -> None:
    twelve = f"def f(a):\n{indent(body, '    ')}"
    thirteen = twelve + "    return 1 if a else 2\n"
    method = f"class Owner:\n{indent(thirteen, '    ')}"
    assert not list(above(twelve))
    assert list(above(thirteen)) == [("f", 13)]
    assert list(above(method)) == [("Owner.f", 13)]


@pytest.mark.parametrize("source", ["{}  # decisions: one case each", "# decisions: one case each\n{}",
                                    "# decisions: one case each\n@cache\n{}"])
def test_a_reason_at_the_definition_excuses(source: str) -> None:
    body = indent(BODIES["if"] * 2, "    ")
    assert not list(above(source.format("def f(a):") + "\n" + body))
    assert list(above(source.replace("one case each", "").format("def f(a):") + "\n" + body)) == [("f", 24)]
    assert list(above("def f(a):\n" + body + "    # decisions: one case each\n")) == [("f", 24)]
