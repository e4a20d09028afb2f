"""Gradients that leave fp16 half-way and come back as zeros, and trainings that cannot go on: noticed and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trainings import small, trained, training

from openane.errors import FormatError
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.training import checkpoint
from openane.training.scaling import LossScale, Scaling
from openane.training.verdict import PATIENCE, Batch, Diverged, check_course, check_weights
from openane.training.watching import WATCH, watched, with_watch

Event = dict[str, Any]


def steep(tmp_path: Path, **scaling: Any) -> dict[str, Any]:
    """A network whose second weights are so large that the gradient of its first leaves fp16 at a usual scale."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((200, 32)).astype(np.float32)
    np.savez(tmp_path / "n.npz", inputs=inputs, labels=(inputs[:, :10] * 3 + rng.standard_normal((200, 10))).argmax(1))
    return small(data={"kind": "arrays", "file": str(tmp_path / "n.npz")},
                 model={"kind": "layers", "layers": ["linear 32", "tanh", "linear 10"]},
                 optimiser={"kind": "adam", "rate": 0.01}, schedule={"kind": "constant"},
                 training={"epochs": 9, "steps": 40, "evaluate": 0},
                 scaling={"initial": 32768.0, "every": 100} | scaling)


def run_steep(table: dict[str, Any]) -> tuple[list[Event], float]:
    """The steps, and how far the first weights moved."""
    with training(table) as made:
        made.state.weights["linear2_weight"] *= 400
        before = made.state.weights["linear0_weight"].copy()
        steps = [event for event in made.run() if event["event"] == "step"]
        return steps, float(np.abs(made.state.weights["linear0_weight"] - before).mean())


@pytest.mark.parametrize(("watch", "device"), [("all", "simulator"), ("weights", "simulator"),
                                               ("all", "linux?driver=simulated")])
def test_infinities_that_vanish_on_the_way_lower_the_scale(tmp_path: Path, watch: str, device: str) -> None:
    """On a device that counts infinities and on one that does not."""
    steps, moved = run_steep(steep(tmp_path, watch=watch) | {"engine": {"device": device}})
    assert (sum(step["infinities"] for step in steps) > 0) == (device == "simulator")
    assert steps[0]["reason"] == "a gradient left fp16 on the way"
    learnt = [step for step in steps if not step["skipped"]]
    assert len(learnt) > 25
    assert learnt[0]["scale"] < 8192
    assert moved > 0.05
    assert np.mean([step["loss"] for step in steps[-5:]]) < 0.7 * steps[0]["loss"]


def test_without_watching_they_are_not_noticed(tmp_path: Path) -> None:
    table = steep(tmp_path, watch="none")
    table["training"]["steps"] = 1
    (step,), moved = run_steep(table)
    assert not step["skipped"], "gradients of the first weights are zeros, those of the second finite"
    assert step["infinities"] > 0
    assert moved < 1e-3


def test_the_watch_is_cheap() -> None:
    counts = []
    for watch in ("none", "all"):
        with training(small(scaling={"watch": watch})) as made:
            counts.append(made.computing.placement()["tasks"])
    assert counts[0] < counts[1] < 1.5 * counts[0]


def products() -> Graph:
    """A sum of a product of what depends on `s`, laid out anew before, and a product that ends in an output."""
    builder = GraphBuilder("g")
    s, x = builder.input("s", "fp16", (4, 4)), builder.input("x", "fp16", (4, 4))
    scaled = builder.single("mul", "scaled", x=s, y=x)
    turned = builder.single("transpose", "turned", x=scaled, perm=[1, 0])
    inner = builder.single("matmul", "inner", x=turned, y=x)
    builder.single("reduce_sum", "unused", x=builder.single("mul", "side", x=s, y=s), axes=[0], keep_dims=True)
    return builder.finish({"a": builder.single("matmul", "a", x=scaled, y=x),
                           "b": builder.single("reduce_mean", "b", x=inner, axes=[0], keep_dims=True)})


def test_what_is_watched() -> None:
    graph = products()
    assert [value.name for value in watched(graph, "s", "all")] == ["scaled", "inner"]
    assert [value.name for value in watched(graph, "s", "weights")] == ["scaled", "inner"]
    assert watched(graph, "s", "none") == watched(graph, "nothing", "all") == ()
    assert with_watch(graph, "s", "none") is graph
    arrays = {"s": np.full((4, 4), 2, np.float16), "x": np.arange(16, dtype=np.float16).reshape(4, 4)}
    found = evaluate(with_watch(graph, "s", "all"), arrays)
    inner = (2 * arrays["x"]).T @ arrays["x"]
    assert found[WATCH].tolist() == [[0], [30], [inner.min()], [inner.max()]]


def batch(**about: Any) -> Batch:
    return Batch(**({"loss": 1.0, "gradients": {"a": np.ones(2)}, "seconds": 0.0, "watched": False, "infinities": 0,
                     "fp16": True} | about))


def test_faults_of_a_batch() -> None:
    zeros = {"a": np.zeros(2)}
    assert batch().fault == batch(gradients=zeros).fault == ""
    assert batch(gradients=zeros, infinities=3).fault == "every gradient is zero"
    assert batch(gradients=zeros, infinities=None).fault == "every gradient is zero"
    assert batch(gradients=zeros, infinities=None, loss=0.001).fault == "", "what is learnt has gradients of zeros"
    assert batch(gradients=zeros, infinities=None, fp16=False).fault == ""
    assert batch(infinities=3).fault == ""
    assert batch(loss=float("inf")).fault == batch(loss=float("nan")).fault == "the loss is not finite"
    assert batch(gradients={"a": np.array([1, np.inf])}).fault == "a gradient left fp16"
    assert batch(watched=True).fault == "a gradient left fp16 on the way"


def test_when_skipping_leads_nowhere() -> None:
    fixed, moving = Scaling(dynamic=False), Scaling()
    check_course(3, "why", 1.0, PATIENCE - 1, LossScale(8.0), fixed)
    check_course(3, "why", 1.0, PATIENCE, LossScale(8.0), moving)
    check_course(3, "", 1.0, 0, LossScale(2.0**-14), moving)
    for message, loss, row, scale, settings in (("and the loss scale is fixed at 8", 1.0, PATIENCE, 8.0, fixed),
                                                ("is not finite", np.inf, PATIENCE, 8.0, moving),
                                                ("even at the lowest", 1.0, 1, 2.0**-14, moving)):
        with pytest.raises(Diverged, match=message) as caught:
            check_course(3, "why", loss, row, LossScale(scale), settings)
        assert caught.value.step == 3
    for weight, fp16 in ((7e4, True), (np.nan, True), (np.inf, False), (-np.nan, False)):
        with pytest.raises(Diverged, match="weight 'a' has come to"):
            check_weights(3, {"a": np.array([1, weight], np.float32)}, fp16)
    check_weights(3, {"a": np.array([1, 7e4], np.float32), "b": np.zeros(0, np.float32)}, fp16=False)


def test_a_fixed_scale_that_is_too_high_ends_with_an_error(tmp_path: Path) -> None:
    table = small(training={"steps": 30, "batch": 16}, scaling={"initial": 2.0**24, "dynamic": False})
    with pytest.raises(Diverged, match=rf"step {PATIENCE}: {PATIENCE} steps in a row were skipped.*fixed at 1.67"):
        trained(table, tmp_path)
    few = table | {"training": {"steps": 3, "batch": 16}}
    with pytest.raises(Diverged, match="every step was skipped"):
        trained(few)


def test_weights_that_leave_fp16_leave_the_checkpoints_alone(tmp_path: Path) -> None:
    table = small(optimiser={"kind": "sgd", "rate": 1e30}, training={"steps": 9}, checkpoints={"every": 1})
    with pytest.raises(Diverged, match=r"step 1: weight 'linear1_weight' has come to .* ends at 65504"):
        trained(table, tmp_path)
    assert checkpoint.latest(tmp_path / "checkpoints") == (None, [])


def test_skipped_steps_are_counted() -> None:
    table = small(training={"steps": 0, "batch": 200, "epochs": 2, "evaluate": 0},
                  scaling={"initial": 2.0**24, "every": 100})
    events = trained(table)
    skipped = [event["skipped"] for event in events if event["event"] == "step"]
    told = [event["skipped"] for event in events if event["event"] == "epoch"]
    assert told == [sum(skipped[:7]), sum(skipped[7:])]
    assert sum(told) == events[-1]["skipped"] > 0
    assert events[-1]["updates"] == len(skipped) - sum(skipped)


def test_an_epoch_without_a_finite_loss_has_an_infinite_one(tmp_path: Path) -> None:
    with training(small(), tmp_path) as made:
        state = made.state
        for _ in range(3):
            state.counted(float("nan"), "why")
        assert state.epoch_ended(3) == {"loss": np.inf, "skipped": 3, "without_loss": 3}
        state.counted(2.0, "")
        state.counted(float("inf"), "why")
        assert state.epoch_ended(2) == {"loss": 2.0, "skipped": 1, "without_loss": 1}
        checkpoint.save(tmp_path, state.checkpoint(made.meaning), 1)
        found, _ = checkpoint.latest(tmp_path)
        assert found is not None
        made.state.restore(found, made.meaning)
        assert made.state.losses == [np.inf, 2.0]


@pytest.mark.parametrize(("scale", "message"), [(1e6, "found 2"), (float("nan"), "found NaN")])
def test_arrays_fp16_does_not_hold(tmp_path: Path, scale: float, message: str) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.array([[1.0, 2.0]] * 9) * scale, labels=np.arange(9) % 2)
    table = small(data={"kind": "arrays", "file": str(tmp_path / "a.npz")})
    with pytest.raises(FormatError, match=rf"a\.npz: array 'inputs' has elements that fp16 does not hold.*{message}"):
        training(table)
