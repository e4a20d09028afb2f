"""Every target of benchmarks/fuzz.py: what it changes is readable before, most mutants are other bytes, and a defect is
noticed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from fuzz import TARGETS
from fuzzing.mutants import of_bytes
from fuzzing.watched import Found, Run, drawn, watched, wrong_with

from openane.errors import AneError

HEAVY = ("hwx-h14", "hwx-h15", "hwx-h17", "hwx-h18", "http", "onnx-nodes")
LIGHT = [name for name in TARGETS if not name.startswith(HEAVY)]


@pytest.mark.parametrize("name", LIGHT)
def test_seeds_are_read_and_mutants_are_read_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name](tmp_path)
    for seed in target.seeds:
        target.read(seed)
    found, changed = Found(), 0
    for number in range(12):
        mutant = drawn(target, name, 7, number)
        assert mutant == drawn(target, name, 7, number)
        changed += mutant not in target.seeds
        assert wrong_with(target.read, mutant, found) is None
    assert changed > 6


@pytest.mark.parametrize(("raised", "wrong"), [
    (KeyError("x"), "KeyError at test_fuzz.py"), (AneError("short"), "without a message"), (MemoryError(), "memory"),
    (RecursionError(), "RecursionError"), (AneError("this says what is wrong"), None)])
def test_what_is_no_message_is_a_defect(raised: Exception, wrong: str | None) -> None:
    def read(_: bytes) -> object:
        raise raised

    said = wrong_with(read, b"", Found())
    assert said == wrong if wrong is None else wrong in str(said)


SCRIPT = """
import json, mmap, os, sys
sys.path[:0] = {path!r}
from fuzzing.files import Target
from fuzzing.watched import PAGE, Run, work

def read(data):
    if data == b"die":
        os._exit(3)

def target(folder):
    numbers = iter(range(start, 1 << 30))
    return Target([b""], lambda seed, draw: {{4: b"die"}}.get(next(numbers), b"x"), read)

runs = [Run(**each) for each in json.loads(sys.argv[sys.argv.index("--runs") + 1])]
start = runs[0].start
work({{"a": target, "b": lambda folder: Target([b"y"], lambda seed, draw: seed, read)}}, runs, 0,
     mmap.mmap(int(sys.argv[sys.argv.index("--page") + 1]), PAGE))
"""


def test_a_process_that_dies_is_noted_and_another_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(path=[path for path in sys.path if path]))
    found = dict(watched([Run("a", 0, 10, 60.0), Run("b", 0, 3, 60.0)], 0, script))
    assert found["a"].first == {"the process ended with 3": 4}
    assert (found["a"].tried, found["a"].defects.total()) == (10, 1)
    assert (found["b"].tried, found["b"].read, found["b"].defects.total()) == (3, 3, 0)


def test_mutants_of_bytes_are_never_empty() -> None:
    draw = random.Random(0)
    assert all(of_bytes(data, draw) for data in (b"", b"x", b"xyz" * 9) for _ in range(200))
