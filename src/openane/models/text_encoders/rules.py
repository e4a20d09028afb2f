"""Encoders described by rules: what the host looks up and prepares for their functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.graph import Graph
from openane.models.distances import buckets
from openane.models.layers import FAR
from openane.models.text_encoders.config import EncoderConfig, EncoderTask
from openane.models.text_encoders.graph import build
from openane.models.text_encoders.weights import EncoderWeights

BUCKETS = 32, 128
"""How many MPNet's code has, and the distance from which all share the last, whatever a configuration states."""


class RulesSource:
    """An encoder by rules. The host looks rows up; the tables are read when this is made."""

    host = ("rows of the tables of words, positions and types, added in float32",
            "masks: which rows hold tokens, and biases of distances")

    def __init__(self, weights: EncoderWeights) -> None:
        self._weights = weights
        self.config: EncoderConfig = weights.config
        config = self.config
        self._words = weights.table(weights.whole("words"), (config.vocabulary, config.rows))
        self._positions = self._types = self._distances = None
        if config.first is not None:
            self._positions = weights.table(weights.whole("positions"), (config.context + config.first, config.rows))
        if config.types:
            self._types = weights.table(weights.whole("types"), (config.types, config.rows))
        if config.buckets:
            self._distances = weights.table(weights.whole("distances"), (config.buckets, config.heads))

    def graph(self, length: int) -> Graph:
        """The function `encode_LENGTH`, see `graph.build`."""
        return build(self._weights, length)

    def inputs(self, tokens: Sequence[int], types: Sequence[int], length: int) -> dict[str, np.ndarray]:
        """Rows, masks and what else the function of `length` tokens takes."""
        config, count = self.config, len(tokens)
        rows = np.zeros((1, length, config.rows), np.float16)
        found = self._words[list(tokens)]
        if self._positions is not None and config.first is not None:
            found = found + self._positions[config.first:config.first + count]
        if self._types is not None:
            found = found + self._types[list(types)]
        rows[0, :count] = found
        mask = np.where(np.arange(length) < count, 0, FAR).astype(np.float32).reshape(1, 1, 1, length)
        apart = np.arange(length)[None, :] - np.arange(length)[:, None]
        inputs = {"embeddings": rows, "mask": mask.astype(np.float16)}
        if self._distances is not None:
            biases = np.moveaxis(self._distances[buckets(apart, *BUCKETS, both_ways=True)], -1, 0)[None]
            inputs["mask"] = np.maximum(mask + biases, FAR).astype(np.float16)
        window = next((window for window in config.windows if window is not None), None)
        if window is not None:
            inputs["near"] = np.where(np.abs(apart) <= window, mask, FAR).astype(np.float16)
        if config.pooled_by_mean and config.task is EncoderTask.CLASSIFY:
            inputs["shares"] = np.where(np.arange(length) < count, 1 / count, 0).astype(np.float16).reshape(1, 1, -1)
        return inputs
