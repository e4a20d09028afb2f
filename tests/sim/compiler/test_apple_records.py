"""The engine operations we emit for the MIL of Apple's recorded compilations, beside the ones Apple's compiler emitted.

Compared is what decides the result: kind, slots, extents, strides, post stages, coefficients' form. Offsets and
L2 row pads are choices of placement.
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
            value = replace(value, streams=tuple((s.core, s.size) for s in value.streams))
        values[field.name] = value
    return type(operation), values


def differs(record, folder):
    try:
        ours = [CHIP.operation(task.words) for task in compile(load_graph(folder / "model.mil")).program.tasks]
    except AneError as error:
        return f"refused: {error}"
    apples = [CHIP.operation(record_words(task)) for task in record["tasks"]]
    if len(ours) != len(apples):
        return f"{len(ours)} tasks, not {len(apples)}"
    for number, (our, apple) in enumerate(zip(ours, apples, strict=True)):
        if outline(our) != outline(apple):
            return f"task {number}: {our}\nnot {apple}"
    return None


def test_operations_are_apples(corpus, tmp_path):
    spec = importlib.util.spec_from_file_location("materialise", corpus / "apple" / "oracles" / "materialise.py")
    materialise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialise)
    known = {line.split()[0] for line in KNOWN.read_text().splitlines() if line.strip()}
    wrong, agreeing = {}, set()
    for path in sorted((corpus / "apple" / "oracles").glob("*.json")):
        materialise.main(str(path), str(tmp_path / path.stem))
        problem = differs(json.loads(path.read_text()), tmp_path / path.stem)
        if problem is None:
            agreeing.add(path.stem)
        else:
            wrong[path.stem] = problem
    unexpected = {name: problem for name, problem in wrong.items() if name not in known}
    assert not unexpected, "\n".join(f"{name}: {problem}" for name, problem in unexpected.items())
    assert not known & agreeing, "these records agree now: take them out of known_differences.txt"
    if len(agreeing) + len(wrong) < 2:
        pytest.fail("no records found")
