"""Whole families from a directory that Hugging Face's `save_pretrained` wrote: config.json, safetensors, and the files
of a tokenizer or preprocessor.

`FAMILIES` says what loads each `model_type`. Decoders and the usual encoders of text are described here by rules on
configurations and names of weights; other families are exported from the transformers library's own code by PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openane.chips import DEFAULT_TARGET
from openane.devices import Device
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.models import exported
from openane.models.config_document import model_type
from openane.models.documents import json_object
from openane.models.exported.load import image_graph, sound_graphs, text_source, tower_networks
from openane.models.exported.model import HOST as IMAGES_ON_HOST
from openane.models.exported.sounds import HOST as SOUNDS_ON_HOST
from openane.models.exported.texts import ExportedSource
from openane.models.families.registry import FAMILIES as DECODERS
from openane.models.language import HOST as DECODERS_ON_HOST
from openane.models.language import LanguageModel, LanguageSettings
from openane.models.load import load
from openane.models.loaded import RunningModel
from openane.models.sequence import SequenceModel, SequenceSettings, SpeechModel, load_sequence, load_speech
from openane.models.sequence.config import FAMILIES as SEQUENCES
from openane.models.sequence.load import sequence_graphs
from openane.models.sequence.model import HOST as SEQUENCES_ON_HOST
from openane.models.steps import Buckets
from openane.models.text_encoders import load_text_encoder, pooling
from openane.models.text_encoders.config import READERS
from openane.models.text_encoders.load import opened
from openane.models.text_encoders.model import DEFAULT_LENGTHS
from openane.models.text_encoders.rules import RulesSource
from openane.models.text_encoders.source import EncoderSource
from openane.models.tokens import chosen_lengths


@dataclass(frozen=True, slots=True)
class PretrainedOptions:
    """How a family is compiled: for what, with which compile `cache`, for which `lengths` (tokens of texts, samples of
    sounds) and for images of which height and width; None is the family's own."""

    device: str | Device | None = None
    target: str = DEFAULT_TARGET
    lengths: tuple[int, ...] | None = None
    image: tuple[int, int] | None = None
    cache: bool | str | Path = False


Pretrained = RunningModel | LanguageModel | SequenceModel | SpeechModel
"""What loading a directory gives."""


@dataclass(frozen=True, slots=True)
class Family:
    """`route` says how it comes in: by rules, or by PyTorch's export; `host` what it leaves to the host. `load` gives
    the model on a device, `graphs` its functions as graphs (None: it is compiled when it is loaded)."""

    route: str
    host: tuple[str, ...]
    load: Callable[[Path, PretrainedOptions], Pretrained]
    graphs: Callable[[Path, PretrainedOptions], Sequence[Graph]] | None = None


def load_pretrained(folder: str | Path, device: str | Device | None = None, target: str = DEFAULT_TARGET,
                    lengths: Sequence[int] | None = None, image: tuple[int, int] | None = None,
                    cache: bool | str | Path = False) -> Pretrained:
    """The model of a directory, compiled for `target` and on a device (default: $ANE_DEVICE, or the simulator).

    `lengths`: texts of up to so many tokens (for a decoder, the contexts of its steps; for a model that answers a text
    with another, its source and its answer) or sounds of up to so many samples, a function for each; `image`: the
    height and width of images. `family_of(folder).host` says what stays on the host. FormatError and UnsupportedError
    say what is missing or not built here; the latter names the families.
    """
    options = PretrainedOptions(device, target, None if lengths is None else tuple(lengths), image, cache)
    return family_of(Path(folder)).load(Path(folder), options)


def pretrained_graphs(folder: str | Path, lengths: Sequence[int] | None = None,
                      image: tuple[int, int] | None = None) -> tuple[Graph, ...]:
    """The functions of a directory's model as graphs. Errors as for `load_pretrained`; UnsupportedError for a family
    that is only compiled to be run."""
    family = family_of(Path(folder))
    if family.graphs is None:
        raise UnsupportedError(f"{folder}", "a model that continues texts is compiled when it is loaded",
                               remedy=f"ane generate {folder}, or ane serve {folder}")
    options = PretrainedOptions(lengths=None if lengths is None else tuple(lengths), image=image)
    return tuple(family.graphs(Path(folder), options))


def family_of(folder: Path) -> Family:
    """What loads a directory's model. FormatError where there is no config.json, UnsupportedError for a model_type that
    no family has."""
    document = json_object(pooling.transformer_folder(folder), "config.json")
    return FAMILIES[model_type(document, sorted(FAMILIES), "no such family is loaded from a directory",
                               f" of {folder}")]


def _decoder(folder: Path, options: PretrainedOptions) -> LanguageModel:
    chosen: dict[str, Any] = {}
    if options.lengths is not None:
        lengths = tuple(sorted(set(options.lengths)))
        chosen["buckets"] = Buckets(lengths, tuple(length for length in (64,) if length <= lengths[-1]))
    return load(folder, options.device, LanguageSettings(target=options.target, cache=options.cache, **chosen))


def _sequence(folder: Path, options: PretrainedOptions) -> Pretrained:
    kind = json_object(folder, "config.json").get("model_type")
    settings = _sequence_settings(options)
    return (load_speech if kind == "whisper" else load_sequence)(folder, options.device, settings)


def _sequence_settings(options: PretrainedOptions) -> SequenceSettings:
    """`lengths` are those of the source and of the answer, or one for both."""
    lengths = options.lengths or (None,)
    return SequenceSettings(lengths[0], lengths[-1], options.target, options.cache)


def _sequence_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    return sequence_graphs(folder, _sequence_settings(options))


def _rules(folder: Path, options: PretrainedOptions) -> RunningModel:
    return load_text_encoder(folder, options.device, options.lengths or DEFAULT_LENGTHS, options.target, options.cache)


def _rules_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    with opened(pooling.transformer_folder(folder)) as weights:
        return _encoder_graphs(RulesSource(weights), options)


def _texts(folder: Path, options: PretrainedOptions) -> RunningModel:
    return exported.load_texts(folder, options.device, options.lengths, options.target, options.cache)


def _texts_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    return _encoder_graphs(text_source(folder), options)


def _encoder_graphs(source: EncoderSource, options: PretrainedOptions) -> list[Graph]:
    lengths = chosen_lengths(options.lengths or DEFAULT_LENGTHS, source.config.context)
    return [source.graph(length) for length in lengths]


def _images(folder: Path, options: PretrainedOptions) -> RunningModel:
    return exported.load_images(folder, options.device, options.image, options.target, options.cache)


def _images_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    return [image_graph(folder, options.image)[0]]


def _towers(folder: Path, options: PretrainedOptions) -> RunningModel:
    return exported.load_towers(folder, options.device, options.image, options.target, options.cache)


def _towers_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    return tower_networks(folder, options.image)[2]


def _sounds(folder: Path, options: PretrainedOptions) -> RunningModel:
    return exported.load_sounds(folder, options.device, options.lengths, options.target, options.cache)


def _sounds_graphs(folder: Path, options: PretrainedOptions) -> list[Graph]:
    return sound_graphs(folder, options.lengths)


RULES, EXPORT = "rules", "export"
TEXTS = ("convbert", "deberta", "deberta-v2", "ernie", "fnet", "mobilebert", "rembert", "roformer", "squeezebert")
IMAGES = ("beit", "clip_vision_model", "conditional_detr", "convnext", "convnextv2", "deit", "depth_anything", "detr",
          "dinov2", "dinov2_with_registers", "dinov3_vit", "dpt", "efficientnet", "focalnet", "glpn", "hiera", "levit",
          "mobilenet_v2", "mobilevit", "poolformer", "pvt", "regnet", "resnet", "segformer", "siglip_vision_model",
          "swin", "swinv2", "upernet", "vit", "yolos")
TOWERS = ("clip", "siglip")
SOUNDS = ("data2vec-audio", "hubert", "wav2vec2", "wav2vec2-conformer", "wavlm")

FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys((kind for kind in DECODERS if kind not in READERS), Family(RULES, DECODERS_ON_HOST, _decoder)),
    **dict.fromkeys(SEQUENCES, Family(RULES, SEQUENCES_ON_HOST, _sequence, _sequence_graphs)),
    **dict.fromkeys(READERS, Family(RULES, RulesSource.host, _rules, _rules_graphs)),
    **dict.fromkeys(TEXTS, Family(EXPORT, ExportedSource.host, _texts, _texts_graphs)),
    **dict.fromkeys(IMAGES, Family(EXPORT, IMAGES_ON_HOST, _images, _images_graphs)),
    **dict.fromkeys(TOWERS, Family(EXPORT, IMAGES_ON_HOST, _towers, _towers_graphs)),
    **dict.fromkeys(SOUNDS, Family(EXPORT, SOUNDS_ON_HOST, _sounds, _sounds_graphs)),
}
"""What loads each `model_type`."""
