"""Whole trainings: beside the fp32 run, with gradients that overflow, of tokens, from files, on a used-up process."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trainings import small, trained, training

from openane.devices.macos import memory_model
from openane.errors import AneError, BudgetExhausted, FormatError

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
MAC = "macos?runtime=simulated&worker=off"


def test_an_epoch_on_the_engine_follows_the_fp32_run() -> None:
    table = small(training={"epochs": 2, "steps": 0, "batch": 64, "clip": 1.0})
    runs = [trained(table | {"engine": {"device": device}}) for device in ("simulator", "reference")]
    initial = next(event["loss"] for event in runs[1] if event["event"] == "step")
    for engine, reference in zip(runs[0][-1]["losses"], runs[1][-1]["losses"], strict=True):
        assert abs(engine - reference) < 0.02 * initial
    assert runs[0][-1]["test_accuracy"] == pytest.approx(runs[1][-1]["test_accuracy"], abs=0.02)


def test_a_gradient_that_leaves_fp16_skips_the_step() -> None:
    table = small(training={"steps": 8, "batch": 16}, scaling={"initial": 2.0**20, "every": 100})
    events = [event for event in trained(table) if event["event"] == "step"]
    skipped = [event["skipped"] for event in events]
    assert skipped[0]
    assert not skipped[-1]
    assert [event["scale"] for event in events][:2] == [2.0**20, 2.0**19]
    assert all(np.isfinite(event["loss"]) for event in events)


def test_a_batch_in_portions_gives_the_weights_of_the_whole() -> None:
    weights = []
    for micro in (8, 32):
        with training(small(training={"micro_batch": micro, "steps": 3}, engine={"device": "reference"})) as made:
            list(made.run())
            weights.append(made.state.weights)
    for name, array in weights[0].items():
        np.testing.assert_allclose(array, weights[1][name], rtol=1e-5, atol=1e-6)


def test_a_training_that_diverges_ends_with_an_error() -> None:
    table = small(optimiser={"kind": "sgd", "rate": 1e30}, training={"steps": 100, "batch": 100, "epochs": 9},
                  engine={"device": "reference"})
    with np.errstate(all="ignore"), pytest.raises(AneError, match="the training has diverged"):
        trained(table)


def decoder(**more: Any) -> dict[str, Any]:
    """A small decoder on Python's library."""
    return small(data={"kind": "text", "files": ["{stdlib}/a*.py"], "limit": 20_000, "length": 16, "classes": 40},
                 model={"kind": "decoder", "layers": 1, "width": 16, "heads": 2},
                 training={"steps": 3, "batch": 4, "epochs": 1, "evaluate": 0}, **more)


def test_a_decoder_learns_on_the_engine() -> None:
    def losses(device: str) -> list[float]:
        with training(decoder(engine={"device": device})) as made:
            found = list(islice(made.run(), 4))
            assert device == "reference" or found[0]["host_operations"] == []
            return [event["loss"] for event in found if event["event"] == "step"]

    np.testing.assert_allclose(losses("simulator"), losses("reference"), rtol=2e-3)


def test_a_budget_of_compilations_leads_to_a_checkpoint_and_a_new_device(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_model, "COMPILATIONS", 2)
    table = small(training={"steps": 4, "batch": 16}, engine={"device": MAC, "route": "recompile"},
                  checkpoints={"every": 100})
    events = trained(table, tmp_path)
    assert [event["event"] for event in events] == [
        "start", "step", "step", "restart", "step", "step", "end"]
    assert "compilations of this process: 2 of 2" in events[3]["reason"]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    plain = trained(table | {"engine": {"device": "reference"}})
    assert losses == pytest.approx([event["loss"] for event in plain if event["event"] == "step"], rel=2e-3)


def test_a_budget_too_small_for_one_step_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_model, "COMPILATIONS", 0)
    table = small(engine={"device": MAC, "route": "recompile"})
    with pytest.raises(BudgetExhausted):
        trained(table, tmp_path)


def test_a_model_from_a_file_is_trained_on(tmp_path: Path) -> None:
    model = {"kind": "file", "file": str(DIGITS)}
    table = small(model=model, training={"batch": 4, "micro_batch": 1, "steps": 2}, engine={"device": "reference"},
                  optimiser={"kind": "sgd", "rate": 1e-3})
    events = trained(table)
    assert events[1]["loss"] < 0.1
    assert events[-1]["test_accuracy"] > 0.95
    assert (len(events[0]["trained"]), events[0]["not_trained"]) == (8, [])
    with training(table | {"model": model | {"weights": ["conv1.bias"]}}) as made:
        start = next(made.run())
    assert start["trained"] == ["conv1.bias"]
    assert len(start["not_trained"]) == 7
    for change, message in (({"weights": ["w"]}, r"the model has no weight 'w'; it has conv1\.weight"),
                            ({}, r"model\.file does not fit the data")):
        with pytest.raises(FormatError, match=message):
            training(table | {"model": model | change, "training": {"batch": 4, "micro_batch": 1 if change else 4}})
