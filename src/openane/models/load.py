"""Language models from files: a Hugging Face directory, or a checkpoint of llama2.c."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from openane.devices import Device
from openane.errors import FormatError, UnsupportedError
from openane.formats.mapping import let_go, map_file
from openane.models import chat, llama2c, tokenizer
from openane.models.config import Config
from openane.models.config_document import REMEDY
from openane.models.encoder import DEFAULT_LENGTHS, TextEncoder
from openane.models.families.registry import NAMES, of_huggingface
from openane.models.gguf_file import GgufCheckpoint, is_gguf
from openane.models.language import LanguageModel, LanguageSettings
from openane.models.layers import Precision
from openane.models.naming import HEAD_NORMS, Renamed, Weights
from openane.models.runner import Told, silent
from openane.models.weights import checkpoint

LONGEST_CONFIG = 1 << 20
"""Bytes of a configuration."""


def load(path: str | Path, device: str | Device | None = None, settings: LanguageSettings | None = None,
         tokenizer_file: str | Path | None = None, told: Told = silent) -> LanguageModel:
    """A decoder, compiled and on a device (default: $ANE_DEVICE or the simulator).

    `path`: a directory with config.json, safetensors and (optional) a tokenizer, a GGUF file (its weights are unpacked
    to fp16), or a `.bin` of llama2.c, whose `tokenizer.bin` may lie beside it. `tokenizer_file` is taken instead of the
    tokenizer found there; `told` hears what is done meanwhile.
    FormatError and UnsupportedError say what is missing or not built here.
    """
    path = Path(path)
    told("the checkpoint")
    with opened(path) as (config, weights):
        folder = path if path.is_dir() else path.parent
        found = _tokenizer(path, folder) if tokenizer_file is None else tokenizer.of_file(Path(tokenizer_file))
        if path.is_file() and found is not None and found.vocabulary != config.vocabulary:
            raise FormatError(f"the tokenizer beside {path.name} has another vocabulary than it; give its own "
                              "(ane: --tokenizer FILE)", expected=config.vocabulary,
                              found=found.vocabulary)
        template = None if found is None else chat.of_folder(folder, found)
        stops = (*config.stops, *(tokenizer.stops_of(folder) if path.is_dir() else ()))
        config = replace(config, stops=tuple(dict.fromkeys(stops)))
        identity = identity_of(path) if settings is not None and settings.cache else ""
        return LanguageModel(config, weights, device, settings, found, template, identity, told)


def _tokenizer(path: Path, folder: Path) -> tokenizer.Tokenizer | None:
    """The tokenizer inside of a GGUF file, or beside another checkpoint."""
    return GgufCheckpoint(path).tokenizer() if path.is_file() and is_gguf(path) else tokenizer.of_folder(folder)


def identity_of(path: Path) -> str:
    """A digest of the files that a checkpoint's weights and configuration are read from."""
    digest = blake2b()
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), *path.glob("*.json")])
    for file in files:
        data = map_file(file)
        digest.update(f"{file.name} {len(data)}:".encode(errors="surrogateescape"))
        digest.update(data)
        let_go(data)
    return digest.hexdigest()


def load_encoder(path: str | Path, device: str | Device | None = None, lengths: Sequence[int] = DEFAULT_LENGTHS,
                 precision: Precision = Precision.FP16) -> TextEncoder:
    """A BERT-style encoder of a Hugging Face directory, compiled for texts of `lengths` tokens and on a device."""
    path = Path(path)
    with opened(path) as (config, weights):
        return TextEncoder(config, weights, device, lengths, precision, tokenizer.of_folder(path))


@contextmanager
def opened(path: Path) -> Iterator[tuple[Config, Weights]]:
    """Configuration and weights of a directory or checkpoint; weights are read while it is open."""
    if not path.exists():
        raise FormatError(f"{path} is not there", expected="a model's directory or a checkpoint", found="nothing")
    if path.is_file() and is_gguf(path):
        with GgufCheckpoint(path) as packed:
            config = of_huggingface(packed.document)
            weights = Renamed(packed.stored(config), packed.names, packed)
            _require_described(config, weights)
            yield config, weights
        return
    if path.is_file():
        found = llama2c.Llama2cCheckpoint(path)
        yield found.config, found.weights
        return
    config = of_huggingface(_document(path))
    with checkpoint(path) as tensors:
        weights = Renamed(config, NAMES[config.family], tensors)
        _require_described(config, weights)
        yield config, weights


def _require_described(config: Config, weights: Weights) -> None:
    """FormatError and UnsupportedError for weights that the configuration says nothing of: without them the numbers
    would be others."""
    for name in weights:
        _, number, part, kind = name.split(".") if name.startswith("layers.") else ("", "", *name.rsplit(".", 1))
        if number and int(number) >= config.layers:
            raise FormatError(f"{name} of the checkpoint", expected=f"{config.layers} layers as config.json says",
                              found=int(number) + 1)
        if number and part in HEAD_NORMS and not (config.normed_heads or config.normed_rows):
            raise UnsupportedError(f"{name} of the checkpoint", "the heads of this model_type are not normalised",
                                   remedy=REMEDY)
        if number and part not in {*config.sizes, *_norms(config)}:
            raise FormatError(f"{name} of the checkpoint", expected="none, as config.json says", found="one")
        if kind not in _kinds(config, part):
            raise FormatError(f"{name} of the checkpoint", expected=f"no {kind}, as config.json says", found="one")


def _norms(config: Config) -> frozenset[str]:
    """The normalisations of a layer."""
    return frozenset(config.norm_names) | (HEAD_NORMS if config.normed_heads or config.normed_rows else frozenset())


def _kinds(config: Config, part: str) -> Collection[str]:
    """What a part of a model may have of `weight` and `bias`."""
    if part in HEAD_NORMS:
        return ("weight",)
    if part in (*config.norm_names, "norm", "embedding.norm"):
        return config.norm_vectors
    return ("weight", "bias") if part in config.biases else ("weight",)


def _document(folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise FormatError(f"{folder} is no model's directory", expected="config.json", found="none")
    if file.stat().st_size > LONGEST_CONFIG:
        raise FormatError(file.name, expected=f"at most {LONGEST_CONFIG} bytes", found=file.stat().st_size)
    try:
        document = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise FormatError(file.name, expected="JSON", found="something else") from None
    if not isinstance(document, dict):
        raise FormatError(file.name, expected="an object", found=type(document).__name__)
    return document
