"""Models of images and sounds from a Hugging Face directory, by the transformers library's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openane.chips import DEFAULT_TARGET
from openane.devices import Device
from openane.errors import FormatError, UnsupportedError
from openane.graph import Graph
from openane.models import tokenizer
from openane.models.config_document import ConfigDocument
from openane.models.documents import PREPROCESSOR, json_object, optional
from openane.models.exported import images
from openane.models.exported.images import Preparation
from openane.models.exported.model import ImageModel, TowersModel
from openane.models.exported.network import all_outputs, graph_of, network
from openane.models.exported.sounds import Letters, SoundModel
from openane.models.exported.texts import ExportedSource
from openane.models.text_encoders import pooling
from openane.models.text_encoders.model import DEFAULT_LENGTHS as DEFAULT_TOKENS
from openane.models.text_encoders.model import TextEncoderModel
from openane.models.tokens import whole_numbers

DEFAULT_SAMPLES = (160000,)
"""Ten seconds at the rate of most models."""


def load_images(folder: Path, device: str | Device | None = None, image: tuple[int, int] | None = None,
                target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> ImageModel:
    """A model of images of one height and width (`image`, None: what preprocessor_config.json says)."""
    document = json_object(folder, "config.json")
    graph, preparation = image_graph(folder, image)
    return ImageModel([graph], preparation, ConfigDocument(document).labels(), device, target, cache)


def image_graph(folder: Path, image: tuple[int, int] | None = None) -> tuple[Graph, Preparation]:
    """The function `main` of a model of images, and how these are prepared for it."""
    document = json_object(folder, "config.json")
    preparation = _preparation(folder, document, image)
    model = network(folder, architecture(document))
    return graph_of(model, all_outputs, {"pixel_values": (1, 3, *preparation.shape)}), preparation


def load_towers(folder: Path, device: str | Device | None = None, image: tuple[int, int] | None = None,
                target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> TowersModel:
    """A model of images and of texts."""
    model, preparation, graphs = tower_networks(folder, image)
    offset = getattr(model, "logit_bias", None)
    return TowersModel(graphs, preparation, int(model.config.text_config.pad_token_id or 0),
                       float(model.logit_scale.detach().exp()), 0.0 if offset is None else float(offset.detach()),
                       offset is not None, device, target, cache, tokenizer.of_folder(folder))


def tower_networks(folder: Path, image: tuple[int, int] | None = None) -> tuple[Any, Preparation, list[Graph]]:
    """The library's model of images and texts, how images are prepared, and its functions `image` and `text`."""
    document = json_object(folder, "config.json")
    preparation = _preparation(folder, document.get("vision_config") or {}, image)
    model = network(folder, architecture(document))
    length = int(model.config.text_config.max_position_embeddings)
    return model, preparation, [
        graph_of(model, _image_tower, {"pixel_values": (1, 3, *preparation.shape)}, "image"),
        graph_of(model, _text_tower, {"input_ids": (1, length)}, "text", ("input_ids",))]


def load_sounds(folder: Path, device: str | Device | None = None, lengths: Sequence[int] | None = None,
                target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> SoundModel:
    """A model of sounds of up to so many samples."""
    document = json_object(folder, "config.json")
    settings = ConfigDocument(json_object(folder, PREPROCESSOR, {}), PREPROCESSOR)
    words, named = json_object(folder, "vocab.json", {}), json_object(folder, "tokenizer_config.json", {})
    letters = Letters.of(words, named, ConfigDocument(document).whole("pad_token_id", 0, least=0)) if words else None
    return SoundModel(sound_graphs(folder, lengths), _steps(document), settings.whole("sampling_rate", 16000),
                      settings.flag("do_normalize", True), letters, device, target, cache)


def _steps(document: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Sizes and strides of the convolutions that make moments of samples."""
    sizes, strides = (document.get(name) for name in ("conv_kernel", "conv_stride"))
    whole = all(isinstance(each, list) and all(type(number) is int and number > 0 for number in each)
                for each in (sizes, strides))
    if not whole or sizes is None or strides is None or len(sizes) != len(strides):
        raise FormatError("'conv_kernel' and 'conv_stride' of config.json", expected="as many sizes as strides",
                          found=[sizes, strides])
    return list(zip(sizes, strides, strict=True))


def sound_graphs(folder: Path, lengths: Sequence[int] | None = None) -> list[Graph]:
    """A function `hear_SAMPLES` for each length."""
    model = network(folder, architecture(json_object(folder, "config.json")))
    wanted = sorted(set(whole_numbers(lengths or DEFAULT_SAMPLES, "lengths")))
    return [graph_of(model, all_outputs, {"input_values": (1, length)}, f"hear_{length}") for length in wanted]


def load_texts(folder: Path, device: str | Device | None = None, lengths: Sequence[int] | None = None,
               target: str = DEFAULT_TARGET, cache: bool | str | Path = False) -> TextEncoderModel:
    """An encoder of text that is not described by rules."""
    inner, pooled = pooling.transformer_folder(folder), pooling.of_folder(folder)
    return TextEncoderModel(text_source(folder), device, lengths or DEFAULT_TOKENS, target, cache,
                            tokenizer.of_folder(inner), pooled)


def text_source(folder: Path) -> ExportedSource:
    """Graphs and inputs of an encoder of text."""
    inner = pooling.transformer_folder(folder)
    document = json_object(inner, "config.json")
    return ExportedSource(inner, document, architecture(document))


def architecture(document: Mapping[str, Any]) -> str:
    """The library's class that a configuration names. UnsupportedError where it names none."""
    names = document.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise UnsupportedError("config.json", "names no architecture",
                               remedy='save_pretrained writes one: "architectures": ["ViTForImageClassification"]')
    return names[0]


def _preparation(folder: Path, config: Mapping[str, Any], shape: tuple[int, int] | None) -> Preparation:
    """How images are prepared; without a preprocessor_config.json, as the configuration's size says."""
    document = optional(folder, PREPROCESSOR)
    if document is None:  # newer releases write it into the processor's file
        document = json_object(folder, "processor_config.json", {}).get("image_processor")
    if document is None:
        document = {"size": config.get("image_size")}
    if not isinstance(document, Mapping):
        raise FormatError(PREPROCESSOR, expected="an object", found=type(document).__name__)
    return images.of_huggingface(document, shape)


def _image_tower(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"image_embeds": _pooled(model.get_image_features(**given))}


def _text_tower(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"text_embeds": _pooled(model.get_text_features(**given))}


def _pooled(found: Any) -> Any:
    """Some releases of the library give the vector, others an object that holds it."""
    return found if hasattr(found, "shape") else found["pooler_output"]
