"""The library: every module states one experiment whole, and no two hypotheses look alike to it."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np
import pytest
from support.planted_engines import stated

import openane.experiments.library as library
from openane.chips.machines import chips_of
from openane.devices.packer import logical_shape
from openane.experiments import Hypothesis, Kind, Risk, experiments
from openane.experiments.attest.journal import as_line
from openane.experiments.attest.route import MOST, find_place
from openane.experiments.attest.session import MOST_STATED, packed_bytes, plan
from openane.experiments.evidence_file import LARGEST
from openane.experiments.facts import deciders, open_facts, reason
from openane.experiments.outcome import Ending, Run, Shown, digest
from openane.experiments.programs import expected, indistinct, program_of, words_content
from openane.simulator.variation import STANDARD
from openane.timing import SubmissionRoute

ALL = experiments()
MACOS, LINUX = SubmissionRoute.MACOS, SubmissionRoute.LINUX


def test_every_module_is_named_after_its_experiment():
    stems = sorted(path.stem for path in Path(library.__file__).parent.glob("*.py") if path.stem != "__init__")
    assert stems == sorted(each.name for each in ALL)
    assert len(stems) >= 60


def test_safe_ones_come_first():
    risks = [each.risk for each in ALL]
    assert risks == sorted(risks, key=lambda risk: risk is Risk.NEW)


@pytest.mark.parametrize("generation", ["h13", "h14", "h16", "h18"])
def test_no_two_hypotheses_look_alike(generation):
    chip = next(soc.name for soc in chips_of(generation) if soc.name.startswith("m"))
    route = LINUX if generation == "h13" else MACOS
    kinds = set(Kind) if generation in ("h13", "h18") else {Kind.WORDS}  # values of the others: benchmarks/planted.py
    found = [text for each in ALL if generation in each.asked_of and each.kind in kinds
             for text in indistinct(each, generation, chip, route)]
    assert not found, found


@pytest.mark.parametrize("generation", ["h13", "h16", "h18"])
def test_what_apples_compiler_might_state_is_not_what_ours_does(generation):
    def said(experiment, hypothesis):
        return [words_content(stated(trial, hypothesis, generation), trial.fields, STANDARD)
                for trial in experiment.trials]

    words = [each for each in ALL if each.kind is Kind.WORDS and generation in each.asked_of]
    assert not [each.name for each in words if said(each, each.hypotheses[0]) == said(each, each.hypotheses[1])]


def test_hypotheses_that_look_alike_are_found():
    experiment = next(each for each in ALL if each.name == "row_sums")
    from dataclasses import replace

    twins = (*experiment.hypotheses[:1], Hypothesis("twin", "the same in other words"))
    assert indistinct(replace(experiment, hypotheses=twins), "h13", "m1", LINUX) == ["row_sums: double and twin"]


def test_every_open_fact_has_an_experiment_or_a_reason():
    facts = open_facts()
    assert not [fact.name for fact in facts if not deciders(fact) and not reason(fact)]
    assert sum(bool(deciders(fact)) for fact in facts) >= 0.8 * len(facts)


def test_every_open_fingerprint_has_an_experiment():
    lines = (Path(__file__).parents[2] / "open_fingerprints.txt").read_text().splitlines()
    operations = {line.split()[0] for line in lines if not line.startswith("#")} - {"gelu-apple"}
    decided = [pattern for each in ALL for pattern in each.decides]
    assert not [name for name in operations if not any(fnmatchcase(f"fingerprint/{name}/", each) for each in decided)]


@pytest.mark.parametrize(("device", "generation", "new"), [
    ("linux?driver=simulated", "", False), ("linux?driver=simulated", "", True),
    ("apple-compiler?runtime=simulated", "h17", False)])
def test_what_is_run_takes_less_than_ten_minutes_and_makes_less_than_5_megabytes(device, generation, new):
    planned = plan(find_place(device, generation=generation), ALL, new)
    assert len(planned.steps) > 40
    assert 0 <= planned.seconds < 600
    assert 0 < planned.bytes < LARGEST


def test_a_file_is_no_larger_than_was_planned():
    generator = np.random.default_rng(0)
    for size in (0, 1000, 60_000):
        contents = [generator.bytes(size) for _ in range(MOST)]
        runs = tuple(Run(Ending.DONE, digest(content), 0.123456789012345678e-5) for content in contents)
        line = as_line(Shown("x" * 80, "y" * 80, "0" * 64, runs, dict(zip([r.digest for r in runs], contents,
                                                                            strict=True))))
        assert len(json.dumps(line)) < packed_bytes(size)


def test_what_the_compiler_states_fits_into_what_was_planned():
    for each in ALL:
        if each.kind is Kind.WORDS:
            content = words_content(program_of(each.trials[0], each.asked_of[-1]).program, each.trials[0].fields,
                                    STANDARD)
            assert len(content) < MOST_STATED


def test_outputs_are_small():
    for each in ALL:
        if each.kind is Kind.VALUES and "h13" in each.asked_of:
            for trial in each.trials:
                outputs = program_of(trial, "h13").program.outputs
                assert sum(prod(logical_shape(buffer.layout)) for buffer in outputs) <= 1 << 16, each.name


def test_what_is_believed_is_a_hypothesis_of_each():
    assert not [each.name for each in ALL if sum(hypothesis.believed for hypothesis in each.hypotheses) != 1]


def test_a_prediction_is_the_same_whenever_it_is_made():
    experiment = next(each for each in ALL if each.name == "task_order")
    made = [expected.__wrapped__(experiment, experiment.trials[0], experiment.hypotheses[1], "h13", "m1", LINUX)
            for _ in range(2)]
    assert made[0] == made[1]
