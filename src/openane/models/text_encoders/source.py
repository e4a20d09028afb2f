"""What an encoder is compiled from and prepared by: rules, or the transformers library's own code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from openane.graph import Graph
from openane.models.text_encoders.config import TextConfig


class EncoderSource(Protocol):
    """Graphs for texts of a length, and their inputs. Outputs are `states` [1, tokens, width] and maybe `pooled` [1,
    width], or `logits` [1, labels], for every token [1, tokens, labels]; 1s in between do not matter."""

    @property
    def config(self) -> TextConfig:
        """What it knows and is asked."""
        ...

    @property
    def host(self) -> tuple[str, ...]:
        """What it leaves to the host."""
        ...

    def graph(self, length: int) -> Graph:
        """The function `encode_LENGTH` for texts of up to so many tokens."""
        ...

    def inputs(self, tokens: Sequence[int], types: Sequence[int], length: int) -> dict[str, np.ndarray]:
        """What the function of `length` tokens takes for a text."""
        ...
