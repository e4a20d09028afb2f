"""Sequence-to-sequence models from a Hugging Face directory: T5, BART and their like, Whisper."""

from __future__ import annotations

from pathlib import Path

from openane.devices import Device
from openane.graph import Graph
from openane.models import tokenizer
from openane.models.documents import PREPROCESSOR, json_object
from openane.models.sequence.config import of_huggingface
from openane.models.sequence.graph import decoder, encoder
from openane.models.sequence.model import SequenceModel, SequenceSettings
from openane.models.sequence.parameters import SequenceParameters
from openane.models.sequence.speech import Spectrogram, SpeechModel, Wording
from openane.models.weights import checkpoint


def load_sequence(path: str | Path, device: str | Device | None = None,
                  settings: SequenceSettings | None = None) -> SequenceModel:
    """A model of a directory with config.json, safetensors and (optional) a tokenizer, compiled and on a device.
    FormatError and UnsupportedError say what is missing or not built here."""
    folder = Path(path)
    config = of_huggingface(json_object(folder, "config.json"))
    with checkpoint(folder) as tensors:
        return SequenceModel(config, tensors, device, settings, tokenizer.of_folder(folder))


def load_speech(path: str | Path, device: str | Device | None = None, settings: SequenceSettings | None = None,
                language: str | None = None, task: str | None = None) -> SpeechModel:
    """A Whisper model of a directory, with what its preprocessor_config.json and generation_config.json state."""
    folder = Path(path)
    words = Wording.of(json_object(folder, "generation_config.json", {}), language, task)
    spectrogram = Spectrogram.of(json_object(folder, PREPROCESSOR, {}))
    model = load_sequence(folder, device, settings)
    try:
        return SpeechModel(model, spectrogram, words)
    except BaseException:
        model.close()
        raise


def sequence_graphs(path: str | Path, settings: SequenceSettings) -> list[Graph]:
    """The functions of a directory's model, `encode` and `decode`, as graphs. Errors as for `load_sequence`."""
    folder = Path(path)
    config = of_huggingface(json_object(folder, "config.json"))
    source, context = settings.extents(config)
    with checkpoint(folder) as tensors:
        parameters = SequenceParameters(config, tensors)
        return [encoder(parameters, source), decoder(parameters, source, context)]
