"""GGUF files written by the gguf package's own quantisers: the scores of the model whose weights were unpacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from networks.language import RandomWeights
from tokenizers import Regex, pre_tokenizers

from openane.errors import FormatError, UnsupportedError
from openane.models import Buckets, Config, LanguageModel, LanguageSettings, load
from openane.models.gguf_architectures import PARTS, WHOLE
from openane.models.gguf_file import DIGITS, GgufCheckpoint
from openane.models.load import opened
from openane.models.tokenizer import of_merges

CONFIG = Config("llama", 262, 64, 2, 4, 2, 16, 96, 64, float(np.float32(1e-5)), stops=(2,))
SETTINGS = LanguageSettings(Buckets((48,), (16,)))
FORMS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1", "Q4_K", "Q6_K")
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


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_the_unpacked_weights(form: str, tmp_path: Path) -> None:
    config = replace(CONFIG, width=256, hidden=256, heads=8, kv_heads=4, head_size=64) if form in SCALES else CONFIG
    unpacked = write(tmp_path / "model.gguf", config, drawn(config), form)
    tokens = np.random.default_rng(1).integers(3, 262, 20).tolist()
    with load(tmp_path / "model.gguf", settings=SETTINGS) as model, \
            LanguageModel(config, unpacked, settings=SETTINGS) as same:
        assert model.config == replace(config, start=model.config.start)
        for each in (model, same):
            each.prefill(tokens[:16])
        found, wanted = (np.stack([each.decode(token) for token in tokens[16:]]) for each in (model, same))
        np.testing.assert_array_equal(found, wanted)
        assert model.tokenizer is not None
        assert model.tokenizer.encode("a a") == [1, 261, 261]
        assert model.tokenizer.decode([261, 3 + 98]) == "ab"
    assert GgufCheckpoint(tmp_path / "model.gguf").forms[form] > 10


def test_rotary_pairs_of_other_architectures_stay(tmp_path: Path) -> None:
    config = replace(CONFIG, biases=frozenset({"query", "key", "value"}))
    weights = drawn(config)
    unpacked = write(tmp_path / "model.gguf", config, weights, "F16", architecture="qwen2")
    with opened(tmp_path / "model.gguf") as (_, found):
        for part in ("query", "key"):
            np.testing.assert_array_equal(found[f"layers.1.{part}.weight"], unpacked[f"layers.1.{part}.weight"])
        assert set(found) == set(unpacked)


def test_digits_are_cut_one_by_one() -> None:
    """One expression cuts as two in turn: every digit by itself, then the rest as GPT-2 does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    found = of_merges(alphabet, [], [], DIGITS, None)
    known = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    ours = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(DIGITS), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    random = np.random.default_rng(0)
    for _ in range(300):
        text = "".join(random.choice(list("ab 's12.\n\t!"), 14))
        assert ours.pre_tokenize_str(text) == known.pre_tokenize_str(text), text
        assert found.decode(found.encode(text)) == text


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(FormatError, match="not a GGUF file that can be read"):
        load(path)
    weights = drawn(CONFIG)
    write(path, CONFIG, weights, "F16", architecture="mamba")
    with pytest.raises(UnsupportedError, match=r"architecture 'mamba'.*llama, qwen2, qwen3"):
        load(path)
    write(path, CONFIG, weights, "F16", llama__rope__scaling__type="yarn")
    with pytest.raises(UnsupportedError, match="stretched rotary positions"):
        load(path)
    write(path, CONFIG, weights, "F16", tokenizer="bert")
    with pytest.raises(UnsupportedError, match=r"tokenizer of model\.gguf.*found bert"):
        load(path)
