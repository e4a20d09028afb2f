"""GGUF files, in which llama.cpp keeps language models: configuration, tokenizer and weights in one file. Weights are
unpacked by the `gguf` library.

Weights may be held in blocks of a few bits. The engine has coefficients of such a size, but not such blocks, so weights
of every form are unpacked to fp16 when the model is compiled: they are the numbers llama.cpp computes with, and the
program is as large as with fp16 weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.formats.gguf import MAGIC, GgufTensor, read_header
from openane.formats.mapping import map_file
from openane.models.closing import Closing
from openane.models.config import Config
from openane.models.families.ropes import ROPES
from openane.models.gguf_architectures import ARCHITECTURES, WHOLE
from openane.models.naming import FamilyNames
from openane.models.tokenizer import Tokenizer, of_merges, of_scores
from openane.version import pip_line

T = TypeVar("T", str, int, float)
TURNED_IN_PART = {"phi3", "gpt_neox", "phi", "stablelm", "nemotron"}
"""Families of which a part of each head is turned."""
LARGEST = {"gemma2": 46, "gemma3_text": 62}
"""Layers of the largest model of a family."""
CONTROL = 3
"""The type of a token that is no text."""
DIGITS = r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"
"""As GPT-2 does, but every digit by itself."""
LEVELS = {
    "default": None, "gpt-2": None, "olmo": None, "phi-2": None, "mpt": None,
    "starcoder": DIGITS, "refact": DIGITS, "command-r": DIGITS, "smollm": DIGITS, "codeshell": DIGITS,
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                 r"\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""How texts are cut before pieces are merged, by llama.cpp's names; None: as GPT-2 does."""


def is_gguf(path: Path) -> bool:
    """Whether a file begins as a GGUF file does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class GgufCheckpoint(Closing, Mapping[str, np.ndarray]):
    """The weights of a file, float32, unpacked when they are asked for, by llama.cpp's names with `layers.` in place of
    `blk.`; its configuration and tokenizer. FormatError for a file that is none, UnsupportedError for an architecture
    or a form of weights that is not read, and without the library."""

    def __init__(self, path: Path) -> None:
        self._library = _library()
        self.path = path
        try:
            self._data = map_file(path)
            self._header = read_header(self._data)
            self._check()
        except (OSError, FormatError) as error:
            raise FormatError(f"{path} is not a GGUF file that can be read: {error}") from None
        self._fields = self._header.fields
        self.architecture = str(self._fields.get("general.architecture"))
        if self.architecture not in ARCHITECTURES:
            raise UnsupportedError(f"architecture {self.architecture!r}", "is not read from GGUF files",
                                   limit=", ".join(ARCHITECTURES),
                                   remedy="load the same model from a Hugging Face directory")
        self._frequencies: dict[str, GgufTensor] = {}
        self._tensors = dict(self._named())

    @property
    def names(self) -> FamilyNames:
        """What the tensors are called."""
        return ARCHITECTURES[self.architecture].names

    def stored(self, config: Config) -> Config:
        """The configuration with rotary pairs as the file has them."""
        return replace(config, rope=replace(config.rope, neighbours=ARCHITECTURES[self.architecture].neighbours))

    @property
    def document(self) -> dict[str, Any]:
        """The configuration as a `config.json` states it. UnsupportedError for positions that are stretched in a way
        that is not read."""
        made = ARCHITECTURES[self.architecture]
        found = {name: self.own(key) for name, key in made.sizes.items()}
        stops = [self._fields[name] for name in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
                 if name in self._fields]
        biased = any(f"layers.0.{part}.bias" in self._tensors for part in ("attn_q", "attn_qkv"))
        if "token_embd.weight" not in self._tensors:
            raise FormatError(self.path.name, expected="token_embd.weight", found=f"{len(self._tensors)} other tensors")
        document: dict[str, Any] = {
            "model_type": made.model_type, "vocab_size": int(self._tensors["token_embd.weight"].shape[0]),
            "tie_word_embeddings": "output.weight" not in self._tensors, made.biased: biased,
            "bos_token_id": self._fields.get("tokenizer.ggml.bos_token_id"), "eos_token_id": stops or None,
            **made.fixed, **{name: value for name, value in found.items() if value is not None}}
        return _completed(document, self)

    @property
    def scaling(self) -> dict[str, Any] | None:
        """How rotary positions are stretched, as a `config.json` states it; None where they are not."""
        kind = None if self.own("rope.scaling.type") is None else str(self.own("rope.scaling.type"))
        whole = "rope_freqs.weight" if "rope_freqs.weight" in self._frequencies else "rope_factors_short.weight"
        if whole in self._frequencies:
            long = whole.replace("short", "long")
            if long not in self._frequencies:
                raise FormatError(self.path.name, expected=long, found="none")
            factors = {name: [float(factor) for factor in self._unpacked(self._frequencies[part]).flat]
                       for name, part in (("short_factor", whole), ("long_factor", long))}
            original = self.own("rope.scaling.original_context_length") or self.own("context_length")
            return {"rope_type": "longrope", "original_max_position_embeddings": original, **factors,
                    "attention_factor": self.own("rope.scaling.attn_factor") or 1.0}
        if kind in (None, "none"):
            return None
        if ROPES.get(kind) != frozenset({"factor"}):
            raise UnsupportedError(f"{self.path.name}", "stretched rotary positions of this kind are not read from "
                                   "GGUF files: only those that a factor alone describes", found=kind,
                                   remedy="load the same model from a Hugging Face directory")
        return {"rope_type": kind, "factor": self.own("rope.scaling.factor") or 1.0}

    @property
    def forms(self) -> dict[str, int]:
        """How many tensors there are of each form, by its name: F16, Q8_0, Q4_K."""
        found: dict[str, int] = {}
        for tensor in self._tensors.values():
            form = self._form(tensor).name
            found[form] = found.get(form, 0) + 1
        return found

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer in the file; None where it has none. UnsupportedError for a kind that is not read, FormatError
        for fields that are missing or of another type."""
        if "tokenizer.ggml.tokens" not in self._fields:
            return None
        pieces = self._each("tokenizer.ggml.tokens", str)
        kind, level = self._fields.get("tokenizer.ggml.model"), str(self._fields.get("tokenizer.ggml.pre", "default"))
        types = self._each("tokenizer.ggml.token_type", int, len(pieces)) \
            if "tokenizer.ggml.token_type" in self._fields else [1] * len(pieces)
        special = [piece for piece, what in zip(pieces, types, strict=True) if what == CONTROL]
        start = self._token("tokenizer.ggml.bos_token_id", len(pieces)) \
            if self._fields.get("tokenizer.ggml.add_bos_token", kind == "llama") else None
        if kind == "llama":
            scores = self._each("tokenizer.ggml.scores", float, len(pieces))
            return of_scores(pieces, scores, special, start)
        if kind != "gpt2" or level not in LEVELS:
            raise UnsupportedError(f"the tokenizer of {self.path.name}", "this kind is not read from GGUF files",
                                   limit=f"llama; gpt2 with {', '.join(LEVELS)}", found=f"{kind}, {level}",
                                   remedy="give the model's tokenizer.json (ane: --tokenizer FILE)")
        return of_merges(pieces, self._each("tokenizer.ggml.merges", str), special, LEVELS[level], start)

    def _each(self, name: str, kind: type[T], count: int | None = None) -> list[T]:
        """A field that is a list: `count` values of one type. FormatError where it is missing or another."""
        found = self._fields.get(name)
        if not isinstance(found, list) or count not in (None, len(found)) or \
                not all(isinstance(each, kind) for each in found):
            what = f"{len(found)} values of {', '.join(sorted({type(each).__name__ for each in found}))}" \
                if isinstance(found, list) else type(found).__name__
            raise FormatError(f"{self.path.name}: field {name} is not what it should be",
                              expected=f"{'a list' if count is None else count} of {kind.__name__}", found=what)
        return found

    def _token(self, name: str, count: int) -> int | None:
        """A field that is the number of one of `count` tokens; None where there is none."""
        found = self._fields.get(name)
        if found is not None and (not isinstance(found, int) or not 0 <= found < count):
            raise FormatError(f"{self.path.name}: field {name} names no token", expected=f"0 to {count - 1}",
                              found=found)
        return found

    def __getitem__(self, name: str) -> np.ndarray:
        return self._unpacked(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def close(self) -> None:
        """Forgets the tensors."""
        self._tensors = {}

    def own(self, key: str) -> Any:
        """A field of the architecture's; None where there is none."""
        return self._fields.get(f"{self.architecture}.{key}")

    def _form(self, tensor: GgufTensor) -> Any:
        return self._library.GGMLQuantizationType(tensor.kind)

    def _rows(self, tensor: GgufTensor) -> tuple[int, ...]:
        """The shape of a tensor's bytes: of its rows, and how many bytes a row has. FormatError for a form that is none
        and for rows that are no whole blocks."""
        try:
            values, size = self._library.GGML_QUANT_SIZES[self._form(tensor)]
        except (ValueError, KeyError):
            raise FormatError(f"tensor {tensor.name!r} has a form that is none", expected="a type of ggml",
                              found=tensor.kind) from None
        if tensor.shape[-1] % values:
            raise FormatError(f"rows of tensor {tensor.name!r} are no whole blocks", expected=f"multiples of {values}",
                              found=tensor.shape[-1])
        return *tensor.shape[:-1], tensor.shape[-1] // values * size

    def _check(self) -> None:
        """FormatError for a tensor whose bytes are not in the file."""
        for tensor in self._header.tensors:
            start = self._header.start + tensor.offset
            if start + math.prod(self._rows(tensor)) > len(self._data):
                raise FormatError(f"tensor {tensor.name!r} reaches beyond the end of the file", offset=start,
                                  expected=f"{math.prod(self._rows(tensor))} bytes",
                                  found=f"{max(0, len(self._data) - start)} bytes")

    def _unpacked(self, tensor: GgufTensor) -> np.ndarray:
        rows, form = self._rows(tensor), self._form(tensor)
        data = np.frombuffer(self._data, np.uint8, math.prod(rows), self._header.start + tensor.offset).reshape(rows)
        try:
            return np.asarray(self._library.quants.dequantize(data, form), np.float32)
        except (NotImplementedError, ValueError, KeyError) as error:
            raise UnsupportedError(f"tensor {tensor.name!r}", "this form of weights is not unpacked",
                                   found=f"{form.name}: {error}",
                                   remedy="take a file with another form of weights (Q8_0, Q4_K_M or F16)") from None

    def _named(self) -> Iterator[tuple[str, GgufTensor]]:
        names = self.names
        for tensor in self._header.tensors:
            *front, part, kind = tensor.name.split(".") if "." in tensor.name else ["", tensor.name]
            if front[:1] == ["blk"] and len(front) == 2 and (part in names.parts or part in names.fused):
                yield f"layers.{front[1]}.{part}.{kind}", tensor
            elif not front and part in WHOLE:
                yield f"{part}.{kind}", tensor
            elif not front and part.startswith("rope_f"):
                self._frequencies[f"{part}.{kind}"] = tensor
            else:
                raise UnsupportedError(f"tensor {tensor.name!r}",
                                       f"no layer of the architecture {self.architecture} has one",
                                       remedy="load the same model from a Hugging Face directory")


def _completed(document: dict[str, Any], file: GgufCheckpoint) -> dict[str, Any]:
    """Fields that follow from others, as llama.cpp has them."""
    kind = document["model_type"]
    if scaling := file.scaling:
        document["rope_scaling"] = scaling
    if not document.get("sliding_window"):
        document.pop("sliding_window", None)
    elif kind == "olmo2":
        document["model_type"] = "olmo3"
    if kind == "llama" and document.get("num_experts"):
        document["model_type"] = "mixtral"
    if kind == "granite":
        document["logits_scaling"] = file.own("logit_scale") or 1.0
    if kind == "gpt_bigcode":
        document["multi_query"] = file.own("attention.head_count_kv") == 1
    return document | _of_heads(document, file)


def _of_heads(document: Mapping[str, Any], file: GgufCheckpoint) -> dict[str, Any]:
    """What follows from the size of a head: how much of it is turned, and how Gemma's scores are scaled (the largest
    models of Gemma 2 and 3 as if heads shared their width)."""
    keys = ("embedding_length", "attention.head_count", "attention.key_length", "rope.dimension_count")
    width, heads, size, turned = (value if isinstance(value, int) else 0 for value in map(file.own, keys))
    equal, kind = max(width // max(heads, 1), 1), document["model_type"]
    size = size or equal
    if kind in LARGEST:
        return {"query_pre_attn_scalar": equal if document.get("num_hidden_layers") == LARGEST[kind] else size}
    return {"partial_rotary_factor": turned / size} if turned and kind in TURNED_IN_PART else {}


def _library() -> Any:
    try:
        import gguf
        import gguf.quants
    except ImportError as missing:
        raise UnsupportedError("reading GGUF files", f"needs the {missing.name} package",
                               remedy=pip_line("gguf")) from None
    return gguf
