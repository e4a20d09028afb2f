"""A model of the zoo before it is loaded, and what it is to compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from openane.graph import Graph


@dataclass(frozen=True)
class Source:
    """A model ready to be loaded: how, its inputs (in order, or by name), and what is to come out in fp32 and, where
    its library can compute so, in fp16."""

    load: Callable[[], Graph]
    inputs: list[np.ndarray] | dict[str, np.ndarray]
    wanted: list[np.ndarray]
    half: list[np.ndarray] | None = None
