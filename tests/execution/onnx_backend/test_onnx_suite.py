"""ONNX's own node cases: none answers wrongly, and what does not run is listed with a reason.

A seeded part of every operator's cases runs here; all of them with OPENANE_ONNX_SUITE=1, or by
benchmarks/onnx_suite.py.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict

import pytest
from support.onnx_suite import cases, judge, read_known

from openane import onnx_backend
from openane.chips import compiled_generations

WHOLE = os.environ.get("OPENANE_ONNX_SUITE") == "1"
SEED = 5
AT_LEAST = 1000
"""Unexpanded cases that run wholly on the engine; the issue asks for 400."""


def chosen():
    """All cases, or one unexpanded case of each operator that has any to run, and as many expanded ones as a tenth."""
    everything = cases()
    if WHOLE:
        return everything
    groups = defaultdict(list)
    for case in everything:
        expanded = "_expanded" in case.name
        groups["expanded" if expanded else case.model.graph.node[0].op_type].append(case)
    draw = random.Random(SEED)
    return [case for name, group in sorted(groups.items())
            for case in draw.sample(group, min(len(group), 20 if name == "expanded" else 1))]


def test_cases_run_or_are_listed():
    known, unlisted, stale, wrong, counts = read_known(), [], [], [], defaultdict(int)
    for case in chosen():
        verdict = judge(case)
        counts[verdict.kind, verdict.expanded] += 1
        if verdict.kind == "wrong":
            wrong.append(f"{verdict.name}: {verdict.reason}")
        elif verdict.kind == "refused" and verdict.name not in known:
            unlisted.append(f"{verdict.name}: {verdict.reason}")
        elif verdict.kind != "refused" and verdict.name in known:
            stale.append(verdict.name)
    assert not wrong, "cases answer wrongly:\n" + "\n".join(wrong)
    assert not unlisted, "cases that ran are refused:\n" + "\n".join(unlisted)
    assert not stale, "cases run now, take them off tests/onnx_known.txt:\n" + "\n".join(stale)
    if WHOLE:
        assert counts["engine", False] >= AT_LEAST


FEW = ("test_add_bcast", "test_argmax_keepdims_random", "test_basic_conv_with_padding", "test_bitshift_left_uint8",
       "test_convtranspose_pads", "test_gemm_all_attributes", "test_layer_normalization_3d_axis1_epsilon",
       "test_lstm_defaults", "test_maxpool_2d_pads", "test_pow", "test_softmax_large_number", "test_tanh",
       "test_top_k_smallest", "test_transpose_all_permutations_3", "test_where_example")
"""Cases of many kinds, a refused one among them. The benchmark judges all on every generation."""


@pytest.mark.parametrize("target", compiled_generations()[1:])
def test_verdicts_do_not_depend_on_the_generation(target):
    known = {case.name: case for case in cases()}
    for name in FEW:
        first, found = judge(known[name]), judge(known[name], target)
        assert (found.kind, found.reason) == (first.kind, first.reason), name


def test_a_model_is_compiled_for_its_target():
    case = next(case for case in cases() if case.name == "test_add_bcast")
    for target in compiled_generations():
        prepared = onnx_backend.prepare(case.model, target=target)
        prepared.run(case.data_sets[0][0])
        assert prepared.last.model.program.chip == target


def test_the_list_names_cases_once_and_gives_reasons():
    known = read_known()
    names = {case.name for case in cases()}
    assert not set(known) - names, "cases the onnx package no longer has"
    assert all(re.search(r"\w{3}", reason) for reason in known.values())
