"""Sums and differences with 1 that lose the digits of small results: found where ranges say that these count."""

from __future__ import annotations

import numpy as np
import pytest

from openane.compiler import compile
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

WEIGHT = (np.random.default_rng(2).standard_normal((16, 32)) / 6).astype(np.float16)
FORMS = {
    "log1p": lambda b, x: b.single("log", x=b.single("add", x=1.0, y=b.single("abs", x=x)), epsilon=0.0),
    "expm1": lambda b, x: b.single("sub", x=b.single("exp", x=x), y=1.0),
    "expm1, added": lambda b, x: b.single("add", x=b.single("exp", x=x), y=-1.0),
    "sinh": lambda b, x: b.single("sinh", x=x),
    "atanh": lambda b, x: b.single("atanh", x=x),
    "erfc": lambda b, x: b.single("sub", x=1.0, y=b.single("erf", x=b.single("add", x=b.single("abs", x=x), y=2.0))),
}


def _graph(form, scale):
    builder = GraphBuilder(metadata={FUNCTIONS: CLOSE})
    x = builder.single("mul", x=builder.input("x", "fp16", (4, 32)), y=scale)
    return builder.finish({"y": builder.single("linear", x=FORMS[form](builder, x), weight=WEIGHT)})


def _errors(execute, graph):
    """Relative error and tasks with today's words, and where numbers are kept right."""
    x = np.random.default_rng(1).uniform(-1, 1, (4, 32)).astype(np.float16)
    wanted = evaluate(graph, {"x": x})["y"].astype(np.float64)
    for options in ({"precision": "as-is"}, {"samples": [{"x": x}]}):
        model = compile(graph, **options)
        found = execute(model, {"x": x}, "exact")["y"]
        yield np.linalg.norm(found - wanted) / np.linalg.norm(wanted), sum(len(each.tasks) for each in model.programs)


@pytest.mark.parametrize("form", FORMS)
def test_small_results_keep_their_digits(execute, form):
    (before, _), (after, _) = _errors(execute, _graph(form, 2.0 ** -8))
    assert after < 4e-3 < before


@pytest.mark.parametrize("form", ["log1p", "expm1", "sinh", "atanh"])
def test_results_that_are_large_take_no_more_tasks(execute, form):
    (before, tasks), (after, more) = _errors(execute, _graph(form, 0.9))
    assert more == tasks
    assert after == before < 4e-3


def test_what_is_not_such_a_difference_stays(execute):
    builder = GraphBuilder(metadata={FUNCTIONS: CLOSE})
    x = builder.single("mul", x=builder.input("x", "fp16", (4, 32)), y=2.0 ** -8)
    sums = {"log": builder.single("log", x=builder.single("add", x=x, y=0.5), epsilon=0.0),
            "guarded": builder.single("log", x=builder.single("add", x=x, y=1.0), epsilon=0.25),
            "exp": builder.single("sub", x=builder.single("exp", x=x), y=0.5),
            "erf": builder.single("sub", x=2.0, y=builder.single("erf", x=x))}
    graph, data = builder.finish(sums), np.random.default_rng(1).uniform(-1, 1, (4, 32)).astype(np.float16)
    models = [compile(graph, precision="as-is"), compile(graph, samples=[{"x": data}])]
    first, second = ([len(each.tasks) for each in model.programs] for model in models)
    assert first == second
    wanted = evaluate(graph, {"x": data})
    for name, found in execute(models[1], {"x": data}, "exact").items():
        np.testing.assert_allclose(found, wanted[name], rtol=2e-3, atol=2e-3)
