"""Normalisations as exporters write them become one operation, and what it computes is right for numbers whose squares,
or differences of squares, fp16 does not hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.exported_norms import EXPORTED, Exported

import openane as ane
from openane.compiler import compile
from openane.graph import Graph
from openane.importers import load_graph
from openane.ops.build import GraphBuilder
from openane.passes.order import simplify


def drawn(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers around 0 and of one scale, or 1000 and a tenth."""
    rng = np.random.default_rng(11)
    signs = rng.choice([-1.0, 1.0], shape)
    numbers = {"usual": rng.standard_normal(shape), "offset": 1000 + 0.1 * rng.standard_normal(shape),
               "large": signs * rng.uniform(300, 3000, shape), "small": signs * rng.uniform(1e-4, 1e-3, shape)}
    return numbers[kind].astype(np.float16)


def loaded(case: Exported, folder: Path) -> Graph:
    """The case as a graph."""
    onnx.save(case.model(), folder / "norm.onnx")
    return load_graph(folder / "norm.onnx")


def alone(case: Exported) -> Graph:
    """The same norm as one operation of a model's own."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", case.shape)
    seen = builder.single("reshape", x=x, shape=list(case.view)) if case.view else x
    count = np.prod([seen.shape[axis] for axis in case.axes])
    epsilon = case.epsilon / count if case.total else case.epsilon
    y = builder.single("layer_norm" if case.centred else "rms_norm", x=seen, axes=list(case.axes), epsilon=epsilon)
    vectors = case.vectors
    y = builder.single("reshape", x=y, shape=list(case.shape)) if case.view and len(case.along) != 5 else y
    factor = count ** -0.5 if case.total else np.sqrt((count - 1) / count) if case.bessel else 1
    if vectors or factor != 1:
        y = builder.single("mul", x=y, y=vectors.get("gamma", np.float32(factor)))
    y = builder.single("add", x=y, y=vectors["beta"]) if "beta" in vectors else y
    return builder.finish({"y": builder.single("reshape", x=y, shape=list(case.shape))})


@pytest.mark.parametrize("case", EXPORTED, ids=lambda case: case.name)
def test_the_exported_form_is_one_operation(case: Exported, tmp_path: Path) -> None:
    graph = loaded(case, tmp_path)
    x = drawn("usual", case.shape).astype(np.float32)
    written = ReferenceEvaluator(case.model()).run(None, {"x": x})[0]
    np.testing.assert_allclose(written, case.wanted(x), rtol=1e-4, atol=1e-4)
    left = [node.op for node in simplify(graph).nodes]
    assert left.count("layer_norm" if case.centred else "rms_norm") == 1
    assert not {"reduce_mean", "reduce_sum", "reduce_sum_square", "reduce_l2_norm", "sqrt", "rsqrt"}.intersection(left)
    model, norm = compile(graph), compile(alone(case))
    for kind, bound in (("usual", 2e-3), ("large", 2e-3), ("small", 1e-2), ("offset", None)):
        x = drawn(kind, case.shape)
        wanted = case.wanted(x)
        found, one = (ane.run(each, {"x": x}, "simulator?arithmetic=exact")["y"] for each in (model, norm))
        error, least = (np.abs(each.astype(np.float64) - wanted).max() for each in (found, one))
        assert error <= 1.1 * least + 1e-3 * np.abs(wanted).max(), f"{kind}: {error}, one operation {least}"
        assert bound is None or error <= bound * np.abs(wanted).max() + 1e-3, f"{kind}: {error}"
