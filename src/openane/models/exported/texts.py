"""Encoders of text that come in by the transformers library's own code: words are looked up by the host, listed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openane.graph import Graph
from openane.models.config_document import ConfigDocument
from openane.models.exported.network import graph_of, network
from openane.models.text_encoders.config import EncoderTask, TextConfig, task_of

MASK, SEGMENTS = "attention_mask", "token_type_ids"


class ExportedSource:
    """An encoder of a directory, by its architecture. Errors as for `network`."""

    host = ("which rows hold tokens",)

    def __init__(self, folder: Path, values: Mapping[str, Any], architecture: str) -> None:
        document = ConfigDocument(values)
        self._model = network(folder, architecture)
        self._names = tuple(inspect.signature(self._model.forward).parameters)
        self.config = TextConfig(kind=str(values["model_type"]), vocabulary=document.whole("vocab_size"),
                                 context=document.whole("max_position_embeddings", 512),
                                 types=document.whole("type_vocab_size", 1, least=0) if SEGMENTS in self._names else 0,
                                 task=task_of(values), labels=document.labels())

    def graph(self, length: int) -> Graph:
        """The function `encode_LENGTH`. UnsupportedError where PyTorch cannot export it, or the engine cannot run what
        it exports."""
        shapes = dict.fromkeys(self._inputs(), (1, length))
        return graph_of(self._model, self._called, shapes, f"encode_{length}", tuple(shapes))

    def inputs(self, tokens: Sequence[int], types: Sequence[int], length: int) -> dict[str, np.ndarray]:
        """The tokens and what tells them from padding, int32 [1, length]."""
        given = {"input_ids": tokens, MASK: [1] * len(tokens), SEGMENTS: types}
        found = {name: np.zeros((1, length), np.int32) for name in self._inputs()}
        for name, array in found.items():
            array[0, :len(tokens)] = given[name]
        return found

    def _inputs(self) -> list[str]:
        return [name for name in ("input_ids", MASK, SEGMENTS)
                if name in self._names and (name != SEGMENTS or self.config.types > 1)]

    def _called(self, model: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        import torch

        found = model(**given)
        if self.config.task is EncoderTask.ANSWER:
            return {"logits": torch.stack([found["start_logits"], found["end_logits"]], -1)}
        if self.config.task is not EncoderTask.STATES:
            return {"logits": found["logits"]}
        pooled = found.get("pooler_output")
        return {"states": found["last_hidden_state"]} | ({} if pooled is None else {"pooled": pooled})
