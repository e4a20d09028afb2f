"""benchmarks/parity.py as people run it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "parity.py"


def run(*arguments, corpus=""):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "OPENANE_CORPUS": str(corpus),
                               "PYTHONPATH": str(SCRIPT.parents[1] / "src")})


def test_without_records_it_says_so():
    done = run()
    assert done.returncode == 0
    assert not done.stdout
    assert "skipped, no records" in done.stderr


def test_one_record_as_json(corpus):
    done = run("--case", "binary_add_1x64x8x8", "--json", corpus=corpus)
    found = json.loads(done.stdout)
    assert found["summary"]["records"] == found["summary"]["accepted"] == 1
    assert found["cases"][0]["tasks"] == [1, 1]
    assert 0.9 < found["summary"]["words"] <= 1
    assert 0.5 < found["summary"]["common"] < found["summary"]["words"]
    assert found["cases"][0]["copied_from"] != "binary_add_1x64x8x8"


def test_report_names_fields_and_totals(corpus):
    done = run("--case", "unary_", corpus=corpus)
    assert "5 of 5 records accepted" in done.stdout
    assert "Every field that differs (ours / Apple's)" in done.stdout
    assert "bytes moved 1.000" in done.stdout


def test_one_generation_alone(corpus):
    done = run("--case", "relu_c64", "--generation", "h16", "--json", corpus=corpus)
    assert list(json.loads(done.stdout)["generations"]) == ["h16"]


def test_an_unknown_case_fails(corpus):
    done = run("--case", "no_such_record", corpus=corpus)
    assert done.returncode == 1
    assert "no record's name contains" in done.stderr


REACHED = {"h13": (44, 0.9994, 40), "h14": (29, 0.985, 26), "h15": (24, 0.998, 24), "h16": (26, 1.0, 26),
           "h17": (30, 0.998, 30), "h18": (21, 0.99, 21)}
"""Records of each generation, the share of words that are Apple's, and how many have Apple's program descriptor with
its trailer. Shares and descriptors may only grow. In those of H13 that are missing Apple's states scratch memory, where
this compiler keeps the same tensors in L2 and has none."""


@pytest.fixture(scope="module")
def everything(corpus: Path) -> dict[str, Any]:
    """What is reported of every generation, in one run."""
    generations: dict[str, Any] = json.loads(run("--json", corpus=corpus).stdout)["generations"]
    return generations


@pytest.mark.parametrize("name", REACHED)
def test_programs_are_apples_to_the_share_that_was_reached(everything: dict[str, Any], name: str) -> None:
    found = everything[name]["summary"]
    records, words, descriptors = REACHED[name]
    assert found["records"] == found["accepted"] == found["task_counts_equal"] == found["descriptors_known"] == records
    assert found["words"] >= words
    assert found["descriptors_equal"] >= descriptors


def test_a_damaged_record_is_told_and_no_other_is_lost(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "apple" / "oracles_h16"
    folder.mkdir(parents=True)
    (folder / "damaged.json").write_text('{"task_descriptors": [{}], "target": "h16"}')
    one = "unary_relu_c64.json"
    (folder / one).write_bytes((corpus / "apple" / "oracles_h16" / one).read_bytes())
    done = run("--corpus", str(tmp_path), "--brief", corpus=corpus)
    assert "damaged.json is no record" in done.stderr
    assert "1 of 1 records accepted" in done.stdout
