"""Encoders of text from a Hugging Face directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openane.chips import DEFAULT_TARGET
from openane.devices import Device
from openane.models import tokenizer
from openane.models.documents import json_object
from openane.models.text_encoders import pooling
from openane.models.text_encoders.config import of_huggingface
from openane.models.text_encoders.model import DEFAULT_LENGTHS, TextEncoderModel
from openane.models.text_encoders.rules import RulesSource
from openane.models.text_encoders.weights import EncoderWeights
from openane.models.weights import checkpoint


def load_text_encoder(path: str | Path, device: str | Device | None = None, lengths: Sequence[int] = DEFAULT_LENGTHS,
                      target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> TextEncoderModel:
    """An encoder of a directory with config.json, safetensors and (optional) a tokenizer.json and what
    sentence-transformers writes, compiled for texts of `lengths` tokens and on a device. FormatError and
    UnsupportedError say what is missing or not built here."""
    folder = Path(path)
    inner = pooling.transformer_folder(folder)
    pooled = pooling.of_folder(folder)
    with opened(inner) as weights:
        source = RulesSource(weights)
        return TextEncoderModel(source, device, lengths, target, cache, tokenizer.of_folder(inner), pooled)


@contextmanager
def opened(folder: Path) -> Iterator[EncoderWeights]:
    """Configuration and weights of a directory; weights are read while it is open."""
    config = of_huggingface(json_object(folder, "config.json"))
    with checkpoint(folder) as tensors:
        yield EncoderWeights(config, tensors)
