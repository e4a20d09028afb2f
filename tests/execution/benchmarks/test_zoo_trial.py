"""A trial of the zoo with a module that writes into its input: what is compared is its result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.needs import library
from zoo_models import trial
from zoo_models.libraries import Built, Described

torch = library("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


class Doubling(torch.nn.Module):  # type: ignore[misc]
    """Doubles what it is given, in place, and adds 1."""

    def forward(self, x: Any) -> Any:
        x.mul_(2)
        return x + 1


def test_what_is_left_in_an_input_is_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    built = Built(Doubling(), (torch.ones(2, 4),), {})
    monkeypatch.setattr(trial, "build", lambda model: built)
    found = trial.tried(Described("torchvision", "doubling", {}), tmp_path)
    assert found["verdict"] == "engine", found
    assert found["error"] == 0
    assert np.array_equal(built.arguments[0].numpy(), np.ones((2, 4)))
