"""The ways weights take to the engine: each computes what the fp32 reference does, and new weights tell."""

from __future__ import annotations

import numpy as np
import pytest
from support.trainings import small, training

from openane.training.computing import Portion
from openane.training.objective import cross_entropy
from openane.training.runners import ROUTES, present
from openane.training.trainer import Training

TINY = small(training={"steps": 3, "batch": 16})


def first(made: Training) -> tuple[Portion, np.float16]:
    """The first portion of a training, and its importance."""
    numbers = np.arange(made.plan.micro)
    return Portion(*made.split.training.take(numbers), made.plan.micro), made.computing.share(1024.0, made.plan.micro)


@pytest.mark.parametrize(("route", "target"), [*((route, "h13") for route in ROUTES), ("inputs", "h14"),
                                               ("patch", "h14"), ("patch", "m4 max"), ("inputs", "h18"),
                                               ("patch", "h18")])
def test_every_route_computes_what_the_reference_does(route: str, target: str) -> None:
    with training(TINY | {"engine": {"device": "reference"}}) as wanted, \
            training(TINY | {"engine": {"route": route, "target": target}}) as made:
        portion, share = first(made)
        for factor in (1.0, 0.5):
            weights = {name: array * np.float32(factor) for name, array in wanted.state.weights.items()}
            found = []
            for each in (wanted, made):
                each.computing.set(weights)
                found.append(each.computing.gradients(portion, share))
            reference, engine = found
            assert engine.loss == pytest.approx(reference.loss, rel=2e-3)
            for name, array in reference.gradients.items():
                error = np.linalg.norm(engine.gradients[name] - array) / np.linalg.norm(array)
                assert error < 0.01, name
        assert made.computing.placement()["host_operations"] == []
        assert made.computing.placement()["route"].startswith(route)


@pytest.mark.parametrize("route", ROUTES)
def test_new_weights_change_the_outputs(route: str) -> None:
    with training(TINY | {"engine": {"route": route}}) as made:
        portion, share = first(made)
        made.computing.set(made.state.weights)
        before, again = (made.computing.gradients(portion, share) for _ in range(2))
        moved = {name: array + np.float32(0.05) for name, array in made.state.weights.items()}
        made.computing.set(moved)
        after = made.computing.gradients(portion, share)
        made.computing.set(made.state.weights)
        back = made.computing.gradients(portion, share)
    assert before.loss == again.loss == back.loss != after.loss
    assert any((before.gradients[name] != after.gradients[name]).any() for name in moved)
    assert all((before.gradients[name] == back.gradients[name]).all() for name in moved)


def test_what_cannot_be_patched_in_place_is_a_buffer() -> None:
    model = {"kind": "layers", "layers": ["conv 2 3x3", "relu", "conv 3 3x3", "max_pool 4x4", "flatten", "linear 10"]}
    with training(TINY | {"model": model, "engine": {"route": "patch"}, "training": {"batch": 4, "steps": 1}}) as made:
        made.computing.set(made.state.weights)
        made.computing.gradients(*first(made))
        route = made.computing.placement()["route"]
    assert "compiled again" not in route
    assert "in place" in route
    assert "as persistent buffers (conv2_weight" in route


def test_vectors_of_zeros_keep_a_number() -> None:
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    assert present(ones) is ones
    made = present(zeros)
    assert (np.count_nonzero(made), made.astype(np.float16)[0] != 0) == (1, True)
    assert made.max() < 1e-7
    assert not zeros.any()


@pytest.mark.needs("torch")
def test_cross_entropy_is_that_of_torch() -> None:
    import torch

    rng = np.random.default_rng(0)
    scores, labels = (rng.standard_normal((6, 5)) * 20).astype(np.float32), rng.integers(0, 5, 6)
    wanted = torch.nn.functional.cross_entropy(torch.tensor(scores, dtype=torch.float64), torch.tensor(labels),
                                               reduction="none")
    np.testing.assert_allclose(cross_entropy(scores, labels), wanted.numpy(), rtol=1e-12)
