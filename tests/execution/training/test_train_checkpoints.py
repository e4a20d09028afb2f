"""Checkpoints: resumed trainings are the uninterrupted ones bit for bit, and no kill costs a checkpoint."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.killing import ENVIRONMENT
from support.training_worker import EVERY
from support.trainings import endless, small, trained, training

from openane.errors import FormatError
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder
from openane.training import checkpoint
from openane.training.checkpoint import Checkpoint

ROUNDS = int(os.environ.get("OPENANE_KILLS", "3"))
"""Processes that are killed; 50 are the long form."""


def last(folder: Path) -> Checkpoint:
    found, _ = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    return found


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints agree in every bit."""
    arrays = all(mine.keys() == its.keys() and all(mine[name].tobytes() == its[name].tobytes() for name in mine)
                 for mine, its in ((one.weights, other.weights), (one.slots, other.slots)))
    return arrays and one.step == other.step and one.state == other.state


@pytest.mark.parametrize(("device", "steps"), [("reference", range(1, 6)), ("simulator", (3,))])
def test_resuming_at_any_step_gives_the_same_bits(tmp_path: Path, device: str, steps: Sequence[int]) -> None:
    table = small(training={"epochs": 2, "steps": 6, "batch": 400}, checkpoints={"every": 1, "keep": 9},
                  engine={"device": device})
    trained(table, tmp_path / "whole")
    whole = last(tmp_path / "whole")
    for step in steps:
        folder = tmp_path / f"from{step}"
        with training(table, folder) as made:
            for event in made.run():
                if event["event"] == "step" and event["step"] == step + 1:
                    break  # the checkpoint of this step is not written any more
        assert last(folder).step == step
        with training(table, folder) as made:
            assert made.resume()
            assert made.state.step == step
            list(made.run())
        assert same(last(folder), whole)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    table = small()
    trained(table, tmp_path)
    folder = tmp_path / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000002", "step-00000004", "step-00000006"]
    weights = folder / "step-00000006" / checkpoint.WEIGHTS
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    (folder / "step-00000004" / checkpoint.STATE).unlink()
    (folder / ".step-00000008.abc").mkdir()
    with training(table, tmp_path) as made:
        assert made.resume()
        assert made.state.step == 2
        assert len(made.notes) == 2
        assert "is damaged" in made.notes[0]
        assert not (folder / ".step-00000008.abc").exists()
        list(made.run())
    assert last(tmp_path).step == 6
    assert not checkpoint.latest(folder)[1]


def test_a_damaged_later_checkpoint_does_not_push_out_a_good_one(tmp_path: Path) -> None:
    for step in (1, 2, 9):
        checkpoint.save(tmp_path, Checkpoint(step, {}, {}, {}), 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000009"]
    (tmp_path / "step-00000009" / checkpoint.STATE).unlink()
    checkpoint.save(tmp_path, Checkpoint(3, {}, {}, {}), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


@pytest.mark.parametrize("state", ["{", "[]", "{}", '{"step": "2", "digests": {}, "training": {}}', "nul\0"])
def test_states_that_are_none(tmp_path: Path, state: str) -> None:
    checkpoint.save(tmp_path, Checkpoint(1, {"a": np.zeros(2, np.float32)}, {}, {}), 3)
    (tmp_path / "step-00000001" / checkpoint.STATE).write_text(state)
    found, refused = checkpoint.latest(tmp_path)
    assert found is None
    assert len(refused) == 1


STATES: list[tuple[dict[str, Any], str]] = [
    ({"settings": 5}, "settings is no table"), ({"skipped": -5, "updates": 11}, "skipped must be a whole number"),
    ({"updates": 10**9}, "counts of steps that do not fit each other"), ({"updates": 6.0}, "updates must be a whole"),
    ({"row": True}, "row must be a whole number"), ({"row": 3}, "counts of steps that do not fit each other"),
    ({"scale": 0}, "scale must be a number between"), ({"scale": float("nan")}, "scale must be a number between"),
    ({"scale": "8"}, "scale must be a number"), ({"scale": 1e30}, "scale must be a number between"),
    ({"steady": None}, "steady must be"), ({"epoch_loss": 10**400}, "too large"), ({"losses": 3}, "not iterable"),
    ({"losses": ["x"]}, "could not convert"), ({"losses": [None]}, "float"), ({"losses": [1.0, 2.0]}, "expected 0"),
    ({"epoch_steps": 6000}, "does not fit epochs of 44 steps"), ({"steps": "many"}, "steps must be a whole number"),
]


@pytest.mark.parametrize(("change", "message"), STATES, ids=lambda value: str(value)[:30])
def test_states_no_training_can_have(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Even with digests that fit: whoever edits a state may make those, too."""
    table = small(engine={"device": "reference"})
    trained(table, tmp_path)
    kept = last(tmp_path)
    text = json.dumps({**kept.state, **change})  # NaN included
    with training(table, tmp_path) as made:
        with pytest.raises(FormatError, match=message):
            made.take(Checkpoint(6, kept.weights, kept.slots, json.loads(text)))
        with pytest.raises(FormatError, match=r"step must be a whole number|do not fit"):
            made.take(Checkpoint(-5, kept.weights, kept.slots, kept.state))


def test_a_state_that_was_edited_is_passed_over(tmp_path: Path) -> None:
    trained(small(engine={"device": "reference"}), tmp_path)
    for folder, (old, new) in zip(sorted((tmp_path / "checkpoints").iterdir()),
                                  (('"scale": 1024.0', '"scale": 512.0'), ('"step": 4', '"step": 1000000000'),
                                   ('"updates": 6', '"updates": 5')), strict=True):
        text = (folder / checkpoint.STATE).read_text()
        assert old in text
        (folder / checkpoint.STATE).write_text(text.replace(old, new))
    found, refused = checkpoint.latest(tmp_path / "checkpoints")
    assert found is None
    assert ["is damaged" in reason for reason in refused] == [True] * 3


def test_a_finished_training_goes_on_for_more_epochs(tmp_path: Path) -> None:
    def table(epochs: int, schedule: str) -> dict[str, Any]:
        return small(training={"epochs": epochs, "steps": 0, "batch": 400}, schedule={"kind": schedule},
                     engine={"device": "reference"})

    trained(table(2, "constant"), tmp_path / "a")
    trained(table(4, "constant"), tmp_path / "whole")
    with training(table(4, "constant"), tmp_path / "a") as made:
        assert made.resume()
        assert made.notes == ["it was to have 6 steps and has 12 now: from here on the schedule (constant) is that of "
                              "12 steps"]
        assert list(made.run())[-1]["step"] == 12
    assert same(last(tmp_path / "a"), last(tmp_path / "whole"))
    with training(table(1, "constant"), tmp_path / "a") as made, \
            pytest.raises(FormatError, match=r"of step 12, and training\.epochs and training\.steps ask for 3"):
        made.resume()
    with training(table(4, "cosine"), tmp_path / "a") as made, pytest.raises(FormatError, match=r"schedule\.kind was"):
        made.resume()


def test_another_configuration_or_model_is_refused(tmp_path: Path) -> None:
    trained(small(), tmp_path)
    with training(small(training={"seed": 4}), tmp_path) as made, \
            pytest.raises(FormatError, match=r"training\.seed was 3 and is 4"):
        made.resume()
    with training(small(data={"kind": "digits", "seed": 1}), tmp_path) as made, \
            pytest.raises(FormatError, match=r"data\.digest was .*data\.seed was 0 and is 1"):
        made.resume()
    whole = last(tmp_path)
    with training(small(), tmp_path) as made:
        for arrays, message in (({}, "another model: 'linear1_weight'"),
                                ({**whole.weights, "linear1_bias": np.zeros(3, np.float32)}, r"linear1_bias.*\[12\]")):
            with pytest.raises(FormatError, match=message):
                made.state.restore(Checkpoint(6, arrays, whole.slots, whole.state), made.meaning)
        with pytest.raises(FormatError, match="lacks part of its state"):
            made.state.restore(Checkpoint(2, {}, {}, {"settings": made.meaning}), made.meaning)


def perceptron(path: Path, activation: str) -> None:
    """A model file, with this activation between two matrices."""
    builder, rng = GraphBuilder("m"), np.random.default_rng(0)
    first, second = (builder.constant((rng.standard_normal(shape) * 0.1).astype(np.float16), name)
                     for name, shape in (("first", (8, 64)), ("second", (10, 8))))
    x = builder.single("reshape", x=builder.input("image", "fp16", (32, 1, 8, 8)), shape=[32, 64])
    hidden = builder.single(activation, x=builder.single("linear", x=x, weight=first))
    text, weights = print_mil(builder.finish({"y": builder.single("linear", x=hidden, weight=second)}))
    (path.parent / "weights").mkdir(exist_ok=True)
    (path.parent / "weights" / "weight.bin").write_bytes(weights)
    path.write_text(text)


def test_a_model_file_of_other_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.mil"
    table = small(model={"kind": "file", "file": str(path)}, engine={"device": "reference"})
    perceptron(path, "relu")
    trained(table, tmp_path / "a")
    with training(table, tmp_path / "a") as made:
        assert made.resume()
    perceptron(path, "tanh")
    with training(table, tmp_path / "a") as made, pytest.raises(FormatError, match=r"model\.digest was '\w+' and is '"):
        made.resume()


def step_of(line: str) -> int:
    """The step a line of the record tells of; 0 where the end of the process cut it short."""
    try:
        return int(json.loads(line)["step"])
    except ValueError:
        return 0


def test_kills_cost_no_checkpoint_and_few_steps(tmp_path: Path) -> None:
    chance, before = random.Random(5), 0
    table = endless(tmp_path, EVERY)
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "support.training_worker", str(tmp_path)]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
            assert process.stdout is not None
            assert process.stdout.readline()  # it has begun
            time.sleep(chance.random() * 0.4)
            process.kill()
            process.communicate()
        found, refused = checkpoint.latest(tmp_path / "checkpoints")
        assert not refused
        step = 0 if found is None else found.step
        told = (tmp_path / "log.jsonl").read_text().splitlines()
        made = max(step_of(line) for line in told)
        assert before <= step <= made <= step + EVERY
        before = step
    with training(table) as whole:
        for event in whole.run():
            if event["event"] == "step" and event["step"] == before:
                break
        assert same(whole.state.checkpoint(whole.meaning), last(tmp_path))
