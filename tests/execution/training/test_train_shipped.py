"""The trainings that ship as examples, whole, beside the same ones in fp32: what the documentation promises of them.

The characters take minutes on a simulator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openane.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
CLOSE = 0.02
"""How far losses may be from those in fp32: of the first epoch's for losses, of itself for the validation loss."""

Events = list[dict[str, Any]]


def trained(config: str, output: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Events:
    """The events of a whole training."""
    assert main(["train", str(EXAMPLES / config), "--output", str(output), "--json", *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def both(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Events, Events]:
    """The training as it ships, on the engine, and in fp32 on the host."""
    engine = trained(config, tmp_path / "engine", capsys)
    start = engine[0]
    assert start["device"] == "simulator"
    assert not start["host_operations"]
    return engine, trained(config, tmp_path / "fp32", capsys, "--device", "reference")


def epochs(events: Events) -> list[float]:
    """Mean loss of every epoch."""
    return [event["loss"] for event in events if event["event"] == "epoch"]


def test_digits_from_scratch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine, fp32 = both("digits/train_digits.toml", tmp_path, capsys)
    assert engine[-1]["test_accuracy"] >= 0.97
    first = next(event["loss"] for event in fp32 if event["event"] == "step")
    assert len(epochs(engine)) == len(epochs(fp32)) > 1
    for ours, theirs in zip(epochs(engine), epochs(fp32), strict=True):
        assert abs(ours - theirs) <= CLOSE * first


@pytest.mark.needs("minutes")
def test_two_layers_of_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine, fp32 = both("characters/train_characters.toml", tmp_path, capsys)
    assert engine[-1]["validation_loss"] == pytest.approx(fp32[-1]["validation_loss"], rel=CLOSE)
