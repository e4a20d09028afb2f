"""Bits of integers, most frequent elements, masked scattering and pools with gaps of PyTorch, beside PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.needs import library

torch = library("torch")
pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore")]
DRAW = torch.Generator().manual_seed(0)
WHOLE = torch.randint(-100, 100, (4, 16), generator=DRAW, dtype=torch.int32)
BYTES = torch.randint(0, 256, (4, 16), generator=DRAW).to(torch.uint8)
IMAGE = torch.randn(1, 2, 12, 12, generator=DRAW).half().float()


def _hold(functions: dict[str, Callable[[Any], Any]], x: Any, tolerance: float = 0.0) -> None:
    import openane.torch

    class Functions(torch.nn.Module):  # type: ignore[misc]
        def forward(self, given: Any) -> Any:
            return [function(given) for function in functions.values()]

    model = Functions()
    with torch.no_grad():
        found = openane.torch.to_engine(model, (x,))(x)
    for name, mine, theirs in zip(functions, found, model(x), strict=True):
        assert mine.shape == theirs.shape, name
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


def test_bits_of_integers() -> None:
    _hold({"and": lambda i: i & 7, "or": lambda i: i | 33, "xor": lambda i: i ^ i.flip(1), "not": lambda i: ~i,
           "left": lambda i: i << 3, "right": lambda i: i >> 2, "both": lambda i: (i & 1 == 0) | (i > 50),
           "most frequent": lambda i: torch.mode(i % 5, 1)[0]}, WHOLE)


def test_bits_of_bytes() -> None:
    _hold({"not": lambda i: ~i, "left": lambda i: i << 3, "right": lambda i: i >> 1, "and": lambda i: i & 15}, BYTES)


def test_choices_and_pools_with_gaps() -> None:
    pool = torch.nn.functional.max_pool2d
    _hold({"gaps": lambda x: pool(x, 3, 2, 1, dilation=2),
           "ceiling": lambda x: pool(x, 2, 3, ceil_mode=True, dilation=3),
           "one dimension": lambda x: torch.nn.functional.max_pool1d(x[0], 3, 1, 1, dilation=3),
           "most frequent": lambda x: torch.mode(x.round(), -1, keepdim=True)[0],
           "scattered": lambda x: x.masked_scatter(x > 0, x.flip(-1) * 2 + 1),
           "by a row": lambda x: x.masked_scatter(x[..., :1, :] > 0, x * 2)}, IMAGE, 2e-3)


def test_more_than_fp16_counts_is_refused() -> None:
    import openane
    import openane.torch

    class Shifted(torch.nn.Module):  # type: ignore[misc]
        def forward(self, given: Any) -> Any:
            return torch.mode(given.reshape(1, -1).expand(2, -1).repeat(1, 8), 1)[0]

    with torch.no_grad(), pytest.raises(openane.AneError, match="at most 2048"):
        openane.torch.to_engine(Shifted(), (IMAGE,))(IMAGE)
