"""Language models from files: a Hugging Face directory, or a checkpoint of llama2.c."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from openane.devices import Device
from openane.errors import FormatError
from openane.models import chat, llama2c, tokenizer
from openane.models.config import Config, of_huggingface
from openane.models.encoder import DEFAULT_LENGTHS, Encoder
from openane.models.language import LanguageModel, Settings
from openane.models.layers import Precision
from openane.models.naming import Renamed, Weights
from openane.models.weights import checkpoint

LONGEST_CONFIG = 1 << 20
"""Bytes of a configuration."""


def load(path: str | Path, device: str | Device | None = None, settings: Settings | None = None) -> LanguageModel:
    """A decoder, compiled and on a device (default: $ANE_DEVICE or the simulator).

    `path`: a directory with config.json, safetensors and (optional) a tokenizer, or a `.bin` of llama2.c, whose
    `tokenizer.bin` may lie beside it. FormatError and UnsupportedError say what is missing or not built here.
    """
    path = Path(path)
    with opened(path) as (config, weights):
        folder = path if path.is_dir() else path.parent
        found = tokenizer.of_folder(folder)
        template = None if found is None else chat.of_folder(folder, found)
        stops = (*config.stops, *(tokenizer.stops_of(folder) if path.is_dir() else ()))
        config = replace(config, stops=tuple(dict.fromkeys(stops)))
        return LanguageModel(config, weights, device, settings, found, template)


def load_encoder(path: str | Path, device: str | Device | None = None, lengths: Sequence[int] = DEFAULT_LENGTHS,
                 precision: Precision = Precision.FP16) -> Encoder:
    """A BERT-style encoder of a Hugging Face directory, compiled for texts of `lengths` tokens and on a device."""
    path = Path(path)
    with opened(path) as (config, weights):
        return Encoder(config, weights, device, lengths, precision, tokenizer.of_folder(path))


@contextmanager
def opened(path: Path) -> Iterator[tuple[Config, Weights]]:
    """Configuration and weights of a directory or checkpoint; weights are read while it is open."""
    if not path.exists():
        raise FormatError(f"{path} is not there", expected="a model's directory or a checkpoint", found="nothing")
    if path.is_file():
        found = llama2c.Checkpoint(path)
        yield found.config, found.weights
        return
    config = of_huggingface(_document(path))
    with checkpoint(path) as tensors:
        yield config, Renamed(config.family, tensors)


def _document(folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise FormatError(f"{folder} is no model's directory", expected="config.json", found="none")
    if file.stat().st_size > LONGEST_CONFIG:
        raise FormatError(file.name, expected=f"at most {LONGEST_CONFIG} bytes", found=file.stat().st_size)
    try:
        document = json.loads(file.read_text())
    except (ValueError, RecursionError):
        raise FormatError(file.name, expected="JSON", found="something else") from None
    if not isinstance(document, dict):
        raise FormatError(file.name, expected="an object", found=type(document).__name__)
    return document
