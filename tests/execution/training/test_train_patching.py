"""Weights as constants: written where they lie, bit for bit as if loaded anew, whatever equals what at the start."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from support.trainings import Table, small, training

from openane.devices.model import ModelExecutable
from openane.errors import UnsupportedError
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder
from openane.training.trainer import Training

DEVICES = ("simulator", "linux?driver=simulated&mode=strict", "linux?driver=simulated&mode=faithful")
CONVOLUTIONS = ["conv 2 3x3", "relu", "conv 3 3x3", "max_pool 4x4", "flatten", "linear 10"]


def patching(device: str = "simulator", target: str = "h13", **tables: Table) -> Table:
    """The configuration of a small training by patches."""
    own: dict[str, Table] = {"engine": {"route": "patch", "device": device, "target": target},
                             "training": {"steps": 3, "batch": 8}}
    return small(**own | tables)


def steps(made: Training) -> list[str]:
    """Makes every step, without what comes after; the route of the weights of each."""
    made_steps = (event for event in made.run() if event["event"] == "step")
    return [made.computing.placement()["route"] for _ in islice(made_steps, made.plan.steps)]


@pytest.mark.parametrize(("device", "target"), [*((device, "h13") for device in DEVICES), ("simulator", "h14"),
                                                ("simulator", "h16"), ("simulator", "h18")])
def test_patches_give_the_bits_of_loading_anew(device: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = patching(device, target, model={"kind": "layers", "layers": CONVOLUTIONS})
    with training(table) as made:
        routes, weights = steps(made), made.state.weights
    assert routes == ["patch: 4 constants in place, 2 as persistent buffers (conv2_weight, conv2_bias)"] * 3

    def refused(loaded: ModelExecutable, model: object) -> None:
        raise UnsupportedError("new constants", "this device takes none")

    monkeypatch.setattr(ModelExecutable, "update_constants", refused)
    with training(table) as again:
        routes = steps(again)
        assert routes[1:] == ["patch, but loaded again: this device takes none"] * 2
        for name, array in weights.items():
            assert (array == again.state.weights[name]).all(), name


def test_a_device_that_takes_no_constants_loads_again_and_says_so() -> None:
    with training(patching("macos?runtime=simulated&worker=off")) as made:
        first, *others = steps(made)
    assert first == "patch: 4 constants in place"
    assert len(others) == 2
    assert all(other.startswith("patch, but loaded again: the system's runtime takes the weights when") for other
               in others)


def normed(folder: Path) -> dict[str, object]:
    """A model file whose constants are what a fresh network has: gains of ones, biases of zeros, twice."""
    builder = GraphBuilder("normed")
    x = builder.input("image", "fp16", (8, 1, 8, 8))
    rng = np.random.default_rng(1)
    y = builder.single("reshape", x=x, shape=[8, 64])
    for number in range(2):
        gain, offset, bias = (builder.constant(np.full(64, value, np.float16), f"{name}{number}")
                              for name, value in (("gain", 1), ("offset", 0), ("bias", 0)))
        y = builder.single("layer_norm", x=y, axes=[-1], gamma=gain, beta=offset, epsilon=1e-3)
        weight = builder.constant((rng.standard_normal((64, 64)) * 0.1).astype(np.float16), f"weight{number}")
        y = builder.single("relu", x=builder.single("linear", x=y, weight=weight, bias=bias))
    head = builder.constant((rng.standard_normal((10, 64)) * 0.1).astype(np.float16), "head")
    text, weights = print_mil(builder.finish({"y": builder.single("linear", x=y, weight=head)}))
    (folder / "weights").mkdir()
    (folder / "weights" / "weight.bin").write_bytes(weights)
    (folder / "normed.mil").write_text(text)
    return {"kind": "file", "file": str(folder / "normed.mil")}


FILLED = {"as it starts": None, "all equal": 0.25, "zeros": 0.0, "ones": 1.0}


@pytest.mark.parametrize("joint", [True, False], ids=["step", "forward"])
def test_equal_weights_have_places_of_their_own(joint: bool, tmp_path: Path) -> None:
    """A fresh network is full of equal vectors; no two of them may share a place, or moving one moves the other."""
    rng = np.random.default_rng(2)
    with training(patching(model=normed(tmp_path))) as made:
        start = {name: array.copy() for name, array in made.state.weights.items()}
        assert (start["gain0"] == start["gain1"]).all()
        assert (start["offset0"] == start["bias1"]).all()
        for number in FILLED.values():
            weights = {name: array if number is None else np.full_like(array, number) for name, array in start.items()}
            check(made, weights, joint)
            for name in start:  # one after the other moves away from its equals
                weights = weights | {name: weights[name] + rng.standard_normal(start[name].shape).astype(np.float32)}
            check(made, weights, joint)


def check(made: Training, weights: dict[str, np.ndarray], joint: bool) -> None:
    """New weights reach the device in place."""
    made.computing.set(weights)
    runner = made.computing._ready(joint)  # what a step does first
    assert "again" not in runner.route, runner.route


def test_equal_weights_move_apart(tmp_path: Path) -> None:
    """From equal vectors on, patched training takes the steps of training by inputs."""
    model, found = normed(tmp_path), []
    for route in ("patch", "inputs"):
        with training(patching(model=model) | {"engine": {"route": route}}) as made:
            steps(made)
            found.append(made.state.weights)
    for name, array in found[0].items():
        np.testing.assert_allclose(array, found[1][name], atol=2e-3, err_msg=name)
    assert (found[0]["gain0"] != found[0]["gain1"]).any()
    assert (found[0]["offset0"] != found[0]["offset1"]).any()


def embedded(folder: Path) -> Table:
    """A model with rows of a table read by number, which the engine cannot do, and data for it."""
    builder, rng = GraphBuilder("embedded"), np.random.default_rng(3)
    x = builder.input("numbers", "fp16", (8, 6))
    rows = builder.single("gather", "rows", x=rng.standard_normal((12, 16)).astype(np.float16), axis=0,
                          indices=builder.single("cast", x=x, dtype="int32"))
    weight = builder.constant((rng.standard_normal((4, 96)) * 0.1).astype(np.float16), "weight")
    y = builder.single("linear", x=builder.single("reshape", x=rows, shape=[8, 96]), weight=weight,
                       bias=builder.constant(np.zeros(4, np.float16), "bias"))
    text, weights = print_mil(builder.finish({"y": y}))
    (folder / "weights").mkdir()
    (folder / "weights" / "weight.bin").write_bytes(weights)
    (folder / "embedded.mil").write_text(text)
    np.savez(folder / "numbers.npz", inputs=rng.integers(0, 12, (100, 6)), labels=np.arange(100) % 4)
    return {"data": {"kind": "arrays", "file": str(folder / "numbers.npz")},
            "model": {"kind": "file", "file": str(folder / "embedded.mil"), "weights": ["weight", "bias"]}}


@pytest.mark.parametrize("route", ["inputs", "patch", "recompile"])
def test_the_host_computes_with_leave_alone(route: str, tmp_path: Path) -> None:
    tables, run = embedded(tmp_path), {"training": {"steps": 3, "batch": 8}}
    with pytest.raises(UnsupportedError, match=r"gather 'rows'.*\n.*engine\.allow_host = true lets the host"):
        training(small(**tables, **run, engine={"route": route}))
    losses = []
    for engine in ({"device": "reference"}, {"route": route, "allow_host": True}):
        with training(small(**tables, **run, engine=engine)) as made:
            start, *events = made.run()
            losses.append([event["loss"] for event in events if event["event"] == "step"])
    assert ["gather 'rows'" in each["operation"] for each in start["host_operations"]] == [True]
    assert "Indices must be constants" in start["host_operations"][0]["reason"]
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)
