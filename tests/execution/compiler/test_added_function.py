"""A function of one tensor is added by one record in one file: every part of the toolchain then knows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane import ops
from openane.cli import main
from openane.ops.build import GraphBuilder
from openane.training import gradient

RECORD = '''
from openane.ops.accuracy import TINY, ULP, Bound
from openane.ops.spec import Unary
from openane.ops.unary import unary_op


def _compose(stages, target, x, settings):
    stages.times(stages.times(x, x), x, target=target)


OPS = (unary_op(Unary("cube", lambda x: x ** 3, Bound(TINY, 3 * ULP, -40.0, 40.0), compose=_compose,
                      slope=lambda t, x, y, s: t.line(t.of("square", x), 3.0, 0.0))),)
'''


@pytest.fixture
def added(tmp_path: Path) -> Iterator[None]:
    """The file beside those of the package."""
    (tmp_path / "cube.py").write_text(RECORD)
    path = ops.__path__
    path.append(str(tmp_path))
    ops.all_ops.cache_clear()
    ops.get_op.cache_clear()
    yield
    path.remove(str(tmp_path))
    sys.modules.pop("openane.ops.cube", None)
    ops.all_ops.cache_clear()
    ops.get_op.cache_clear()


def graph(loss: bool = False) -> ane.Graph:
    """cube(reshape(x)), and its sum as a loss."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 8))
    y = builder.single("cube", x=builder.single("reshape", x=x, shape=[4, 4]))
    return builder.finish({"y": y, "loss": builder.single("reduce_sum", x=y)} if loss else {"y": y})


@pytest.mark.usefixtures("added")
def test_it_runs_within_its_bound() -> None:
    data = np.linspace(-4, 4, 16, dtype=np.float16).reshape(2, 8)
    found = ane.run(ane.compile(graph()), {"x": data}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    wanted = data.astype(np.float64).reshape(4, 4) ** 3
    bound = ops.get_op("cube").unary
    assert bound is not None
    assert (np.abs(found - wanted) <= bound.bound.absolute + bound.bound.relative * np.abs(wanted)).all()


@pytest.mark.usefixtures("added")
def test_it_is_trained_through() -> None:
    data = np.linspace(-2, 2, 16, dtype=np.float16).reshape(2, 8)
    joint = gradient(graph(loss=True), "loss", ["x"])
    found = ane.run(ane.compile(joint), {"x": data}, "simulator")["gradient_x"]
    np.testing.assert_allclose(found.astype(np.float64), 3 * data.astype(np.float64) ** 2, rtol=5e-3, atol=1e-3)


@pytest.mark.usefixtures("added")
def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "cube"]) == 0
    listed = capsys.readouterr().out
    assert "cube(x)" in listed
    assert "accuracy: within 6e-08 + 0.0015 of the value for x in [-40, 40]" in listed
    assert "gradient: rule" in listed
