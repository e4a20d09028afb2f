"""GGUF files written by the gguf package's own quantisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from networks.language import RandomWeights

from openane.models import Config
from openane.models.gguf_architectures import PARTS, WHOLE

SCALES = {"Q4_K": (0, 2), "Q6_K": (208, 210)}
"""Forms that the package unpacks but does not make: the bytes of a block at which its scales in fp16 begin."""
OURS = {ours: part for part, ours in PARTS.items() if not part.endswith("exps")}
OURS |= {ours: part for part, ours in WHOLE.items()}


def named(name: str) -> str:
    """llama.cpp's name of one of our weights."""
    *front, part, kind = name.split(".")
    return f"blk.{front[1]}.{OURS[part]}.{kind}" if front else f"{OURS[part]}.{kind}"


def paired(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp stores those of queries and keys: the halves of a rotary pair side by side."""
    rows = array.shape[0]
    return array.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def unpaired(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows with the halves of rotary pairs apart again."""
    rows = array.shape[0]
    return array.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)


def packed(array: np.ndarray, kind: Any) -> np.ndarray:
    """Bytes of blocks: the array's, or drawn ones where the package cannot make them."""
    if kind.name not in SCALES:
        return np.asarray(gguf.quants.quantize(np.ascontiguousarray(array, np.float32), kind))
    size, bytes_of_block = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(array.size).integers(0, 256, (array.size // size, bytes_of_block), np.uint8)
    for start in SCALES[kind.name]:
        if start < bytes_of_block:
            blocks[:, start:start + 2] = np.frombuffer(np.float16(1e-4).tobytes(), np.uint8)
    return blocks.reshape(*array.shape[:-1], -1)


def write(path: Path, config: Config, weights: dict[str, np.ndarray], form: str, tokenizer: str = "llama",
          architecture: str = "llama", **more: Any) -> dict[str, np.ndarray]:
    """The file, and the weights as they are once they are unpacked."""
    writer = gguf.GGUFWriter(str(path), architecture)
    kind = gguf.GGMLQuantizationType[form]
    writer.add_embedding_length(config.width)
    writer.add_feed_forward_length(config.hidden)
    writer.add_block_count(config.layers)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(config.epsilon)
    writer.add_rope_freq_base(10000.0)
    writer.add_context_length(config.context)
    writer.add_key_length(config.head_size)
    writer.add_eos_token_id(2)
    if tokenizer:
        pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "\u2581a"]
        writer.add_tokenizer_model(tokenizer)
        writer.add_token_list(pieces)
        writer.add_token_scores([0.0] * 259 + [-1.0, -2.0, -0.5])
        writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1])
        writer.add_bos_token_id(1)
        if tokenizer == "gpt2":
            writer.add_token_merges(["\u2581 a"])
    for key, value in more.items():
        writer.add_string(key.replace("__", "."), value)
    held: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        heads = config.heads if ".query." in name else config.kv_heads
        turned = paired(array, heads) if architecture == "llama" and (".query." in name or ".key." in name) else array
        own = kind if array.ndim > 1 else gguf.GGMLQuantizationType.F32
        data = packed(turned, own)
        writer.add_tensor(named(name), data, raw_dtype=own)
        unpacked = gguf.quants.dequantize(data, own)
        held[name] = unpacked if turned is array else unpaired(unpacked, heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def drawn(config: Config) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, np.float32) for name, array in RandomWeights(config).items()}
