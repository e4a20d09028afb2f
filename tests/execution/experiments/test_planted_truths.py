"""Whatever is true of an engine, attesting finds it and nothing else: a hypothesis of each experiment, in turn."""

from __future__ import annotations

from zlib import crc32

import pytest
from support.planted_engines import linux, macos, pairs, verdict

from openane.experiments import Kind, experiments

RUN = tuple(each for each in experiments() if each.kind is not Kind.WORDS)
ON_LINUX = tuple(each for each in RUN if "h13" in each.asked_of)
ON_MACS = ("conv_stride", "row_sums", "sum_range", "winograd_present", "tile_bandwidth", "dispatch_cost", "task_order",
           "port_limit")


def _planted():
    """One hypothesis of every experiment, by its name; benchmarks/planted.py plants them all, through every route."""
    for experiment in ON_LINUX:
        number = crc32(experiment.name.encode()) % len(experiment.hypotheses)
        yield pytest.param(experiment, number, id=f"{experiment.name}, {experiment.hypotheses[number].name}")


@pytest.mark.parametrize(("experiment", "number"), tuple(_planted()))
def test_linux_finds_what_is_planted(experiment, number, tmp_path):
    hypothesis = experiment.hypotheses[number]
    found = verdict(linux(hypothesis.engine, seed=number), experiment, tmp_path)
    assert found.named == hypothesis.name, f"{hypothesis.name} is true, found {dict(found.odds)}"


@pytest.mark.parametrize(("chip", "generation"), [("m2", "h14"), ("m5", "h17")])
def test_macs_find_what_is_planted(chip, generation, tmp_path):
    for experiment, hypothesis in pairs(tuple(each for each in RUN if each.name in ON_MACS)):
        if generation not in experiment.asked_of or "hang" in hypothesis.engine:
            continue  # a hang takes as long as the time-out: see test_interruptions
        found = verdict(macos(hypothesis.engine, chip), experiment, tmp_path)
        assert found.named == hypothesis.name, f"{experiment.name}: {hypothesis.name}: {dict(found.odds)}"


def test_an_engine_that_no_hypothesis_describes_is_none_of_them(tmp_path):
    experiment = next(each for each in RUN if each.name == "port_limit")
    assert verdict(linux("store next"), experiment, tmp_path).named == "none of these"


def test_one_hang_that_no_hypothesis_predicts_is_a_doubt_not_a_verdict(tmp_path):
    experiment = next(each for each in RUN if each.name == "port_limit")
    found = verdict(linux("hang Elementwise"), experiment, tmp_path)
    assert found.named == ""
    assert max(found.odds, key=lambda each: found.odds[each]) == "none of these"
