"""What files prove: prepared as a patch, never written, contradictions listed."""

from __future__ import annotations

from math import log

import pytest
from support.planted_engines import attested, linux

from openane.chips.attested import ATTESTED
from openane.chips.machines import find
from openane.cli.chips import describe_generation
from openane.experiments import find_experiment
from openane.experiments.attest.route import find_place
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.facts import deciders, open_facts
from openane.experiments.judge.odds import Verdict, verdicts
from openane.experiments.judge.page import knowledge, page
from openane.experiments.judge.tables import contradictions, facts_decided, prepared
from openane.experiments.judge.timing import fitted


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return [attested(find_place(linux(engine)), find_experiment("row_sums"), folder)
            for engine in ("", "sums half", "sums half;rate clock*0.9")]


def test_a_change_is_prepared_and_not_made(files):
    before = ATTESTED.read_bytes()
    patch = prepared(files[:1], simulated=True)
    assert '+ "rule/all/planar-sums": [' in patch
    assert '"level": "proved"' in patch
    assert prepared(files[1:2], simulated=True).count('"level": "refuted"') == 1
    assert ATTESTED.read_bytes() == before


def test_simulated_engines_prove_nothing(files):
    assert prepared(files) == ""


def test_contradictions_are_listed_and_change_nothing(files):
    judged = {each.identity: (each, verdicts(each)) for each in files}
    (found,) = contradictions(judged)
    assert {hypothesis for _, hypothesis in found.said} == {"double", "half"}
    assert prepared(files, simulated=True) == ""


def test_a_field_that_no_trial_uses_is_not_proved(tmp_path):
    evidence = attested(find_place(linux("")), find_experiment("conv_depth"), tmp_path)
    assert not [name for name in facts_decided(evidence, verdicts(evidence)) if name.startswith("field/")]


PLANTED = {"dispatch": 2.5, "tile": 0.6}


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """Files of three machines, of which the last is another kind of engine."""
    folder, made = tmp_path_factory.mktemp("timed"), []
    words = ";".join(f"rate {name}*{factor}" for name, factor in PLANTED.items())
    for seed, engine in enumerate((words, words, "rate tile*3")):
        files = [attested(find_place(linux(engine, seed=seed)), find_experiment(name), folder)
                 for name in ("dispatch_cost", "tile_bandwidth")]
        made.append(EvidenceFile(files[0].head, files[0].trials + files[1].trials, f"{seed}" * 64))
    return made


def test_planted_times_are_fitted_within_their_scatter(timed):
    found = {each.name: each for each in fitted(timed[0])}
    assert set(found) == set(PLANTED)
    for name, factor in PLANTED.items():
        assert abs(log(found[name].factor / factor)) < 2 * log(found[name].scatter)
        assert found[name].scatter < 1.15


def test_times_that_machines_agree_on_are_prepared_with_their_scatter(timed):
    patch = prepared(timed[:2], simulated=True)
    lines = patch[patch.index("attested_times.json"):]
    assert lines.count('"scatter"') == 4
    assert '"m1, linux"' in lines


def test_times_that_contradict_each_other_are_listed_and_not_prepared(timed):
    judged = {each.identity: (each, ()) for each in timed}
    assert {each.experiment for each in contradictions(judged)} == {"m1, linux dispatch", "m1, linux tile"}
    assert "attested_times" not in prepared(timed, simulated=True)


def test_attested_times_are_shown(monkeypatch):
    said = [{"file": "0" * 64, "value": 60.0, "scatter": 1.02, "runs": 9},
            {"file": "1" * 64, "value": 66.0, "scatter": 1.03, "runs": 9}]
    monkeypatch.setattr("openane.chips.attested.attested_times", lambda: {"m5, macos": {"dispatch": said}})
    assert "| m5, macos | dispatch | 62.93 us | 1.05 | 2 |" in list(knowledge())
    (found,) = describe_generation(find("m5"))["attested_times"]
    assert (found["name"], found["machines"]) == ("dispatch", 2)
    assert "62.93 us" in page()


def test_the_page_has_every_open_fact():
    text, lines = page(), "\n".join(knowledge())
    assert all(fact.name in lines for fact in open_facts())
    assert f"{sum(bool(deciders(fact)) for fact in open_facts())} of them" in text
    assert "<script" not in text


def test_what_apples_compiler_states_is_seen_or_left_alone():
    levels = set()
    for name in ("words_coefficient_hints", "words_array_modes", "words_identity", "words_planar_modes"):
        evidence = EvidenceFile({"generation": "h17", "chip": "m5", "about": {"engine": "none"}}, (), "0" * 64)
        levels |= {said["level"] for said in facts_decided(evidence, [Verdict(name, {}, "as ours")]).values()}
    assert levels == {"seen", "left alone"}
