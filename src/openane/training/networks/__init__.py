"""Networks to train: from a list of layers, a decoder of tokens, or a model in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from openane.training.networks.decoder import Decoder
from openane.training.networks.file import File
from openane.training.networks.layers import TrainedLayers
from openane.training.networks.network import Network


class Description(Protocol):
    """The settings of one kind of network."""

    def build(self, inputs: tuple[int, ...], classes: int, rng: np.random.Generator, base: Path) -> Network:
        """The network for inputs of a shape, and its first weights. FormatError where the description is wrong."""
        ...


NETWORKS: Mapping[str, type[Description]] = {"layers": TrainedLayers, "decoder": Decoder, "file": File}

__all__ = ["NETWORKS", "Description", "Network"]
