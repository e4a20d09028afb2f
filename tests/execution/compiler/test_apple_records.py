"""The engine operations we emit for the MIL of Apple's recorded compilations, beside the ones Apple's compiler emitted.

Compared is what decides the result: kind, slots, extents, strides, post stages, coefficients' form. Offsets and
L2 row pads are choices of placement. Then all words (benchmarks/parity.py names the ones that differ).
"""

import importlib.util
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.records import record_words

from openane.chips import get_chip
from openane.compiler import compile
from openane.engine import Access, Coefficients, Space
from openane.errors import AneError
from openane.importers import load_graph

CHIP = get_chip("h13")
KNOWN = Path(__file__).with_name("known_differences.txt")
"""Records for which we emit something else, one per line; a line whose record agrees must go."""


def outline(operation):
    """What of an operation is not a choice of placement."""
    values = {}
    for field in fields(operation):
        value = getattr(operation, field.name)
        if isinstance(value, Access):
            value = replace(value, offset=0, copy=None,
                            strides=value.strides if value.space is Space.MEMORY else (0,) * 5)
        elif isinstance(value, Coefficients):
            value = value.relocated(lambda section: (section.slot, *((s.core, s.size) for s in section.streams)))
        values[field.name] = value
    return type(operation), values


def compiled(folder):
    """The words of our tasks for a materialised record."""
    return [task.words for task in compile(load_graph(folder / "model.mil")).program.tasks]


def differs(ours, apples):
    if len(ours) != len(apples):
        return f"{len(ours)} tasks, not {len(apples)}"
    for number, words in enumerate(zip(ours, apples, strict=True)):
        our, apple = (CHIP.operation(task) for task in words)
        if outline(our) != outline(apple):
            return f"task {number}: {our}\nnot {apple}"
    return None


@pytest.fixture(scope="module")
def records(corpus, tmp_path_factory):
    """Per record our tasks (or why there are none) and Apple's."""
    folder = tmp_path_factory.mktemp("records")
    spec = importlib.util.spec_from_file_location("materialise", corpus / "apple" / "oracles" / "materialise.py")
    materialise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialise)
    found = {}
    for path in sorted((corpus / "apple" / "oracles").glob("*.json")):
        materialise.main(str(path), str(folder / path.stem))
        apples = [record_words(task) for task in json.loads(path.read_text())["tasks"]]
        try:
            found[path.stem] = compiled(folder / path.stem), apples
        except AneError as error:
            found[path.stem] = f"refused: {error}", apples
    if len(found) < 2:
        pytest.fail("no records found")
    return found


def test_operations_are_apples(records):
    known = {line.split()[0] for line in KNOWN.read_text().splitlines() if line.strip()}
    problems = {name: ours if isinstance(ours, str) else differs(ours, apples)
                for name, (ours, apples) in records.items()}
    unexpected = {name: problem for name, problem in problems.items() if problem is not None and name not in known}
    assert not unexpected, "\n".join(f"{name}: {problem}" for name, problem in unexpected.items())
    agreeing = {name for name, problem in problems.items() if problem is None}
    assert not known & agreeing, "these records agree now: take them out of known_differences.txt"


def test_words_are_apples(records):
    """Every word of every task of our programs: header, run heads and registers."""
    same = total = counts = whole = 0
    for ours, apples in records.values():
        assert not isinstance(ours, str), ours
        counts += len(ours) == len(apples)
        equal = sum(a == b for our, apple in zip(ours, apples, strict=False) for a, b in zip(our, apple, strict=False))
        words = max(sum(map(len, ours)), sum(map(len, apples)))
        same, total, whole = same + equal, total + words, whole + (equal == words)
    assert counts >= len(records) - 4
    assert same / total >= 0.995
    assert whole >= len(records) - 8
