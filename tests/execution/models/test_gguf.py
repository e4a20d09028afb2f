"""GGUF files written by the gguf package's own quantisers: the scores of the model whose weights were unpacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from support.gguf_files import SCALES, drawn, write
from tokenizers import Regex, pre_tokenizers

from openane.errors import FormatError, UnsupportedError
from openane.formats.gguf import read_header
from openane.formats.mapping import map_file
from openane.models import Buckets, Config, LanguageModel, LanguageSettings, load
from openane.models.gguf_file import DIGITS, GgufCheckpoint
from openane.models.load import opened
from openane.models.tokenizer import of_merges

CONFIG = Config("llama", 262, 64, 2, 4, 2, 16, 96, 64, float(np.float32(1e-5)), stops=(2,))
SETTINGS = LanguageSettings(Buckets((48,), (16,)))
FORMS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1", "Q4_K", "Q6_K")
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


def test_fields_are_those_of_the_gguf_package(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, CONFIG, drawn(CONFIG), "Q8_0")
    known = gguf.GGUFReader(str(path))
    found = read_header(map_file(path))
    assert found.fields == {name: each.contents() for name, each in known.fields.items() if "GGUF." not in name}
    assert [(each.name, found.start + each.offset, each.shape[::-1]) for each in found.tensors] == [
        (each.name, each.data_offset, tuple(each.shape)) for each in known.tensors]


@pytest.mark.parametrize(("kind", "before", "after", "said"), [
    ("llama", b"tokenizer.ggml.scores", b"tokenizer.ggml.scoreS", "field tokenizer.ggml.scores is not"),
    ("gpt2", b"tokenizer.ggml.merges", b"tokenizer.ggml.mergeS", "field tokenizer.ggml.merges is not"),
    ("llama", b"bos_token_id\4\0\0\0\1", b"bos_token_id\6\0\0\0\1", "bos_token_id names no token"),
    ("llama", b"bos_token_id\4\0\0\0\1\0", b"bos_token_id\4\0\0\0\1\7", "bos_token_id names no token"),
    ("llama", b"scores\x09\0\0\0\6", b"scores\x09\0\0\0\4", "262 of float, found 262 values of int"),
    ("llama", b"token_type\x09\0\0\0\5", b"token_type\x09\0\0\0\6", "262 of int, found 262 values of float")])
def test_fields_that_are_not_what_they_should_be_are_refused(kind: str, before: bytes, after: bytes, said: str,
                                                             tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, CONFIG, drawn(CONFIG), "Q8_0", tokenizer=kind)
    assert before in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(before, after))
    with GgufCheckpoint(path) as found, pytest.raises(FormatError, match=said):
        found.tokenizer()


def test_tensors_beyond_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, CONFIG, drawn(CONFIG), "Q8_0")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"model\.gguf.*reaches beyond the end of the file"):
        load(path)


@pytest.mark.parametrize("merge", ["a", "a b", "b a", " a", "a "])
def test_merges_of_pieces_that_are_none_are_refused(merge: str) -> None:
    with pytest.raises(FormatError, match="two pieces that make a third"):
        of_merges(["a", "aa", "ba"], ["a a", merge], [], None, None)


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
