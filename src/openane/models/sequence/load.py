"""Sequence-to-sequence models from a Hugging Face directory: T5, BART and their like, Whisper."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.devices import Device
from openane.errors import FormatError
from openane.models import tokenizer
from openane.models.sequence.config import of_huggingface
from openane.models.sequence.model import SequenceModel, SequenceSettings
from openane.models.sequence.speech import Spectrogram, SpeechModel, Wording
from openane.models.weights import checkpoint

LONGEST = 1 << 24
"""Bytes of a document; Whisper's generation_config.json has some ten thousand."""


def load_sequence(path: str | Path, device: str | Device | None = None,
                  settings: SequenceSettings | None = None) -> SequenceModel:
    """A model of a directory with config.json, safetensors and (optional) a tokenizer, compiled and on a device.
    FormatError and UnsupportedError say what is missing or not built here."""
    folder = Path(path)
    config = of_huggingface(document(folder, "config.json"))
    with checkpoint(folder) as tensors:
        return SequenceModel(config, tensors, device, settings, tokenizer.of_folder(folder))


def load_speech(path: str | Path, device: str | Device | None = None, settings: SequenceSettings | None = None,
                language: str | None = None, task: str | None = None) -> SpeechModel:
    """A Whisper model of a directory, with what its preprocessor_config.json and generation_config.json state."""
    folder = Path(path)
    words = Wording.of(document(folder, "generation_config.json", {}), language, task)
    spectrogram = Spectrogram.of(document(folder, "preprocessor_config.json", {}))
    model = load_sequence(folder, device, settings)
    try:
        return SpeechModel(model, spectrogram, words)
    except BaseException:
        model.close()
        raise


def document(folder: Path, name: str, missing: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """A JSON object of the directory; `missing` where there is no such file. FormatError when there is none, or it is
    no object."""
    file = folder / name
    if not file.is_file():
        if missing is not None:
            return missing
        raise FormatError(f"{folder} is no model's directory", expected=name, found="none")
    if file.stat().st_size > LONGEST:
        raise FormatError(name, expected=f"at most {LONGEST} bytes", found=file.stat().st_size)
    try:
        found = json.loads(file.read_text())
    except (ValueError, RecursionError):
        raise FormatError(name, expected="JSON", found="something else") from None
    if not isinstance(found, dict):
        raise FormatError(name, expected="an object", found=type(found).__name__)
    return found
