"""docs/glossary.md is obeyed: every public class has a name of its own, and words that say little name nothing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
from support.house import ROOT, modules, name_of, tree_of

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
SAME_WORD = {
    "cli/train_display.py Plain": "a terminal without drawing is called so by everybody",
    "devices/linux/buffers.py BufferObject.handle": "the driver's own word for a number, and no verb",
}
"""Names that are words of the glossary's last table all the same, and why."""


def named(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    """Public classes and functions, methods with the name of their class."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield owner + node.name
        if isinstance(node, ast.ClassDef):
            yield from named(node.body, f"{node.name}.")


class Named(NamedTuple):
    """The names a file gives: to public classes at its top, to all that is public, and to types."""

    classes: list[str]
    public: list[str]
    types: set[str]


@cache
def given() -> dict[str, Named]:
    """Those of every file of the source, which is read once."""
    return {name_of(path): names_in(tree_of(path).body) for path in modules()}


def names_in(body: list[ast.stmt]) -> Named:
    """The names of a module."""
    types = {target.id for node in body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name)}
    classes = [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return Named(classes, list(named(body)), types)


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Public classes and functions of the source, and names that are given to types."""
    return set().union(*(file.types.union(file.public) for file in given().values()))


def forbidden() -> set[str]:
    """The words of the first column of the last table, but for its last row."""
    table = GLOSSARY.partition("## Words that name nothing")[2]
    rows = re.findall(r"^\| ([a-z, ]+) \|", table, re.MULTILINE)
    return {word for row in rows[:-1] for word in row.split(", ")}


def test_public_classes_have_names_of_their_own() -> None:
    places = defaultdict(list)
    for file, names in given().items():
        for name in names.classes:
            places[name].append(file)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, "say in the name whose it is: " + "; ".join(f"{n} in {', '.join(p)}" for n, p in twice.items())


def test_words_that_say_little_name_nothing() -> None:
    words = forbidden()
    assert {"perform", "walk", "plain", "moved", "phased"} <= words
    found = [f"{file} {name}" for file, names in given().items() for name in names.public
             if name.rpartition(".")[2].lower() in words]
    assert set(found) == set(SAME_WORD), "docs/glossary.md says what to say instead"


@pytest.mark.parametrize("verb", ["compile", "run", "execute", "compute", "evaluate"])
def test_every_verb_of_the_glossary_is_a_function(verb: str, names: set[str]) -> None:
    assert f"\n| {verb} |" in GLOSSARY
    assert any(name.rpartition(".")[2] == verb for name in names)


def test_classes_of_the_glossary_exist(names: set[str]) -> None:
    told = set(re.findall(r"`(?:[a-z_]+\.)*([A-Z]\w+)(?:\.\w+)?`", GLOSSARY.replace("Common.InDim.Win", "")))
    assert len(told) > 50
    assert told <= names
