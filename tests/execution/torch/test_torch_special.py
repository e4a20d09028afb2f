"""Special functions of PyTorch on the simulator, beside PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.needs import library

torch = library("torch")
pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore")]
special = torch.special
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "erfinv": (torch.erfinv, -0.99, 0.99), "lgamma": (torch.lgamma, -4, 9), "digamma": (torch.digamma, 0.1, 9),
    "trigamma": (lambda x: torch.polygamma(1, x), 0.1, 9), "of a matrix": (lambda x: torch.mvlgamma(x, 3), 2, 9),
    "i0": (torch.i0, -4, 4), "i0e": (special.i0e, -9, 9), "i1": (special.i1, -4, 4), "i1e": (special.i1e, -9, 9),
    "quantile": (special.ndtri, 0.01, 0.99), "scaled": (special.erfcx, -1, 6), "tail": (torch.erfc, 1, 3),
    "logarithm of a share": (special.log_ndtr, -5, 5),
    "small logarithm": (torch.log1p, 0, 1e-3), "small exponential": (torch.expm1, -1e-3, 1e-3),
}


def test_special_functions() -> None:
    import openane.torch

    class Functions(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *numbers: Any) -> Any:
            return [function(x) for (function, *_), x in zip(FUNCTIONS.values(), numbers, strict=True)]

    draw = torch.Generator().manual_seed(0)
    numbers = [(low + (high - low) * torch.rand(4, 16, generator=draw)).half().float()
               for _, low, high in FUNCTIONS.values()]
    model = Functions()
    with torch.no_grad():
        found = openane.torch.to_engine(model, tuple(numbers))(*numbers)
    for name, mine, theirs in zip(FUNCTIONS, found, model(*numbers), strict=True):
        wanted = theirs.numpy()
        assert mine.shape == theirs.shape, name
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-2, atol=4e-3 * np.sqrt(np.square(wanted).mean()),
                                   err_msg=name)
