"""ONNX's own node cases: none answers wrongly, and what does not run is listed with a reason.

A seeded part of every operator's cases runs here; all of them with OPENANE_ONNX_SUITE=1, or by
benchmarks/onnx_suite.py.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict

from support.onnx_suite import cases, judge, read_known

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


def test_the_list_names_cases_once_and_gives_reasons():
    known = read_known()
    names = {case.name for case in cases()}
    assert not set(known) - names, "cases the onnx package no longer has"
    assert all(re.search(r"\w{3}", reason) for reason in known.values())
