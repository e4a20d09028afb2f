"""Optimisers, clipping, schedules and loss scaling: the formulas of PyTorch, and rules of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openane.training.clipping import clip, global_norm
from openane.training.optimisers import Adam, AdamW, Optimiser, Sgd
from openane.training.scaling import LossScale, Scaling, overflowed
from openane.training.schedules import ConstantSchedule, Cosine, StepSchedule

OURS: list[tuple[Optimiser, str, dict[str, Any]]] = [
    (Sgd(rate=0.05, momentum=0.9), "SGD", {"momentum": 0.9}),
    (Sgd(rate=0.05, momentum=0.8, nesterov=True, weight_decay=0.01), "SGD",
     {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01}),
    (Sgd(rate=0.05, momentum=0.0), "SGD", {}),
    (Adam(rate=0.05, weight_decay=0.02), "Adam", {"weight_decay": 0.02}),
    (Adam(rate=0.05, beta1=0.8, beta2=0.95, epsilon=1e-6), "Adam", {"betas": (0.8, 0.95), "eps": 1e-6}),
    (AdamW(rate=0.05, weight_decay=0.1), "AdamW", {"weight_decay": 0.1}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("ours", "theirs", "settings"), OURS, ids=lambda value: str(value)[:40])
def test_optimisers_step_as_those_of_pytorch(ours: Optimiser, theirs: str, settings: dict[str, Any]) -> None:
    import torch

    rng = np.random.default_rng(1)
    weight = rng.standard_normal((4, 3)).astype(np.float32)
    other = torch.nn.Parameter(torch.tensor(weight.copy()))
    peer = getattr(torch.optim, theirs)([other], lr=ours.rate, **settings)
    slots = {name: np.zeros_like(weight) for name in ours.slots}
    for step in range(1, 12):
        gradient = rng.standard_normal(weight.shape).astype(np.float32)
        kept = gradient.copy()
        ours.update(weight, gradient, slots, step, ours.rate)
        assert (gradient == kept).all()
        other.grad = torch.tensor(gradient)
        peer.step()
        np.testing.assert_allclose(weight, other.detach().numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.needs("torch")
def test_clipping_is_that_of_pytorch() -> None:
    import torch

    rng = np.random.default_rng(2)
    for largest in (0.5, 100.0):
        arrays = {name: rng.standard_normal(5).astype(np.float32) for name in "ab"}
        others = [torch.nn.Parameter(torch.zeros(5)) for _ in arrays]
        for other, array in zip(others, arrays.values(), strict=True):
            other.grad = torch.tensor(array.copy())
        wanted = torch.nn.utils.clip_grad_norm_(others, largest)
        assert clip(arrays, largest) == pytest.approx(float(wanted), rel=1e-6)
        for other, array in zip(others, arrays.values(), strict=True):
            np.testing.assert_allclose(array, other.grad.numpy(), rtol=1e-6)


def test_without_a_limit_nothing_is_clipped() -> None:
    arrays = {"a": np.array([3.0, 4.0], np.float32)}
    assert clip(arrays, 0.0) == 5.0
    assert global_norm(arrays) == 5.0


def test_schedules() -> None:
    assert [ConstantSchedule(warm_up=4).factor(step, 9) for step in (0, 1, 3, 8)] == [0.25, 0.5, 1, 1]
    cosine = Cosine(warm_up=2, lowest=0.1)
    assert cosine.factor(0, 12) == 0.5
    assert cosine.factor(2, 12) == 1
    assert cosine.factor(7, 12) == pytest.approx(0.55)
    assert cosine.factor(12, 12) == pytest.approx(0.1)
    assert [StepSchedule(every=3, gamma=0.5).factor(step, 9) for step in (0, 2, 3, 6)] == [1, 1, 0.5, 0.25]


def test_the_loss_scale_falls_on_overflow_and_rises_after_a_while() -> None:
    settings = Scaling(initial=1024, every=2, largest=2048)
    scale = LossScale(settings.initial)
    seen = []
    for overflow in (True, False, False, False, False, False, False):
        scale = scale.after(overflow, settings)
        seen.append(scale.scale)
    assert seen == [512, 512, 1024, 1024, 2048, 2048, 2048]
    assert LossScale(8.0).after(True, Scaling(dynamic=False)).scale == 8


def test_overflow_is_infinity_or_nan() -> None:
    fine = np.ones(3, np.float16)
    assert not overflowed([fine])
    assert overflowed([fine, np.array([1, np.inf], np.float16)])
    assert overflowed([np.array([np.nan], np.float16)])
