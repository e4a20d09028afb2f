"""The gradients of what picks, writes, resizes and recurs on the engine: compiled without host operations, held to
float32."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradient_cases import CASES
from support.gradients import hold_on_engine


@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_engine(case):
    low = 0.5 if case.operands.get("mode") == "div" else -2.0
    hold_on_engine(case.numbers(np.float16, low), case.made, case.weights)
