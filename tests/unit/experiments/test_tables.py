"""What files prove: prepared as a patch, never written, contradictions listed."""

from __future__ import annotations

import pytest
from support.planted_engines import attested, linux

from openane.chips.attested import ATTESTED
from openane.experiments import find_experiment
from openane.experiments.attest.route import find_place
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.facts import deciders, open_facts
from openane.experiments.judge.odds import Verdict, verdicts
from openane.experiments.judge.page import knowledge, page
from openane.experiments.judge.tables import contradictions, facts_decided, fitted, prepared


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


def test_times_are_fitted_with_their_scatter(tmp_path):
    evidence = attested(find_place(linux("rate dispatch*2")), find_experiment("dispatch_cost"), tmp_path)
    (found,) = fitted([evidence])
    assert 1.8 < found.factor < 2.2
    assert 1.0 < found.scatter < 1.3


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
