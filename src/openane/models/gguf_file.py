"""GGUF files, in which llama.cpp keeps language models: configuration, tokenizer and weights in one file, read by the
`gguf` library.

Weights may be held in blocks of a few bits. The engine has coefficients of such a size, but not such blocks, so weights
of every form are unpacked to fp16 when the model is compiled: they are the numbers llama.cpp computes with, and the
program is as large as with fp16 weights. llama.cpp stores the rows of queries and keys of Llama's architecture with
the two halves of a rotary pair side by side; here they are put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.tokenizer import Tokenizer, of_merges, of_scores

PIP = 'pip install "openane[gguf]"'
MAGIC = b"GGUF"
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""`general.architecture`, and the `model_type` of the same layers."""
PARTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
"""llama.cpp's names of tensors, and those of a checkpoint of the transformers library."""
SIZES = {"hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
         "num_hidden_layers": "block_count", "num_attention_heads": "attention.head_count",
         "num_key_value_heads": "attention.head_count_kv", "rms_norm_eps": "attention.layer_norm_rms_epsilon",
         "rope_theta": "rope.freq_base", "max_position_embeddings": "context_length",
         "head_dim": "attention.key_length"}
CONTROL = 3
"""The type of a token that is no text."""
LEVELS = {
    "default": None, "gpt-2": None,
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


class GgufCheckpoint(Mapping[str, np.ndarray]):
    """The weights of a file by the names of the transformers library, float32, unpacked when they are asked for; its
    configuration and tokenizer. FormatError for a file that is none, UnsupportedError for an architecture or a form of
    weights that is not read, and without the library."""

    def __init__(self, path: Path) -> None:
        self._library = _library()
        self.path = path
        try:
            self._reader = self._library.GGUFReader(str(path))
            self._fields = {name: field.contents() for name, field in self._reader.fields.items()}
        except Exception as error:  # whatever the library raises on bytes it does not understand
            raise FormatError(f"{path} is not a GGUF file that can be read: {type(error).__name__}: {error}") from None
        self.architecture = str(self._fields.get("general.architecture"))
        if self.architecture not in ARCHITECTURES:
            raise UnsupportedError(f"architecture {self.architecture!r}", "is not read from GGUF files",
                                   limit=", ".join(ARCHITECTURES),
                                   remedy="load the same model from a Hugging Face directory")
        self._tensors = dict(self._named())

    @property
    def document(self) -> dict[str, Any]:
        """The configuration as a `config.json` states it. UnsupportedError for positions that are stretched."""
        scaling = self._own("rope.scaling.type")
        if scaling not in (None, "none") or "rope_freqs.weight" in {tensor.name for tensor in self._reader.tensors}:
            raise UnsupportedError(f"{self.path.name}", "stretched rotary positions are not read from GGUF files",
                                   found=scaling or "rope_freqs.weight",
                                   remedy="load the same model from a Hugging Face directory")
        found = {name: self._own(key) for name, key in SIZES.items()}
        stops = [self._fields[name] for name in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
                 if name in self._fields]
        return {"model_type": ARCHITECTURES[self.architecture], "hidden_act": "silu",
                "vocab_size": int(self["model.embed_tokens.weight"].shape[0]),
                "tie_word_embeddings": "lm_head.weight" not in self._tensors,
                "bos_token_id": self._fields.get("tokenizer.ggml.bos_token_id"), "eos_token_id": stops or None,
                "attention_bias": "model.layers.0.self_attn.q_proj.bias" in self._tensors,
                **{name: value for name, value in found.items() if value is not None}}

    @property
    def forms(self) -> dict[str, int]:
        """How many tensors there are of each form, by its name: F16, Q8_0, Q4_K."""
        found: dict[str, int] = {}
        for tensor in self._tensors.values():
            found[tensor.tensor_type.name] = found.get(tensor.tensor_type.name, 0) + 1
        return found

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer in the file; None where it has none. UnsupportedError for a kind that is not read."""
        pieces = self._fields.get("tokenizer.ggml.tokens")
        kind, level = self._fields.get("tokenizer.ggml.model"), str(self._fields.get("tokenizer.ggml.pre", "default"))
        if pieces is None:
            return None
        types = self._fields.get("tokenizer.ggml.token_type") or [1] * len(pieces)
        special = [str(piece) for piece, what in zip(pieces, types, strict=True) if what == CONTROL]
        start = self._fields.get("tokenizer.ggml.bos_token_id") \
            if self._fields.get("tokenizer.ggml.add_bos_token", kind == "llama") else None
        if kind == "llama":
            return of_scores([str(piece) for piece in pieces],
                             [float(score) for score in self._fields["tokenizer.ggml.scores"]], special, start)
        if kind != "gpt2" or level not in LEVELS:
            raise UnsupportedError(f"the tokenizer of {self.path.name}", "this kind is not read from GGUF files",
                                   limit=f"llama; gpt2 with {', '.join(LEVELS)}", found=f"{kind}, {level}",
                                   remedy="give the model's tokenizer.json (ane: --tokenizer FILE)")
        merges = [str(each) for each in self._fields["tokenizer.ggml.merges"]]
        return of_merges([str(piece) for piece in pieces], merges, special, LEVELS[level], start)

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        try:
            found = np.asarray(self._library.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        except (NotImplementedError, ValueError, KeyError) as error:
            raise UnsupportedError(f"tensor {tensor.name!r}", "this form of weights is not unpacked",
                                   found=f"{tensor.tensor_type.name}: {error}") from None
        rotary = self.architecture == "llama" and tensor.name.split(".")[-2] in ("attn_q", "attn_k")
        return self._unpaired(found, tensor.name) if rotary else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._tensors = {}

    def _own(self, key: str) -> Any:
        return self._fields.get(f"{self.architecture}.{key}")

    def _named(self) -> Iterator[tuple[str, Any]]:
        for tensor in self._reader.tensors:
            *front, part, kind = str(tensor.name).split(".") if "." in tensor.name else ["", tensor.name]
            if front[:1] == ["blk"] and len(front) == 2 and part in PARTS:
                yield f"model.layers.{front[1]}.{PARTS[part]}.{kind}", tensor
            elif not front and part in WHOLE:
                yield f"{WHOLE[part]}.{kind}", tensor
            elif part not in ("rope_freqs",):
                raise UnsupportedError(f"tensor {tensor.name!r}",
                                       f"no layer of the architecture {self.architecture} has one",
                                       remedy="load the same model from a Hugging Face directory")

    def _unpaired(self, found: np.ndarray, name: str) -> np.ndarray:
        """Rows of queries or keys with the first halves of rotary pairs before the second ones."""
        heads = self._own("attention.head_count" if "attn_q" in name else "attention.head_count_kv")
        heads = int(heads or self._own("attention.head_count"))
        rows = found.shape[0]
        if rows % (2 * heads):
            raise FormatError(f"tensor {name}", expected=f"rows for {heads} heads of pairs", found=rows)
        return found.reshape(heads, rows // heads // 2, 2, *found.shape[1:]).swapaxes(1, 2).reshape(found.shape)


def _library() -> Any:
    try:
        import gguf
        import gguf.quants
    except ImportError as missing:
        raise UnsupportedError("reading GGUF files", f"needs the {missing.name} package", remedy=PIP) from None
    return gguf
