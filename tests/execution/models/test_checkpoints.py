"""Language models from files: Hugging Face directories, llama2.c checkpoints; broken and foreign files refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.language import RandomWeights
from support import checkpoints
from support.language_reference import BERT, GPT2, GROUPED, LLAMA, scores, states

from openane import models
from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models import llama2c
from openane.models.config import Rope
from openane.models.families.registry import of_huggingface
from openane.models.load import opened
from openane.models.rope import frequencies

DEVICE = "simulator?arithmetic=fast"
SETTINGS = models.LanguageSettings(models.Buckets((32,), (8,)))
TOKENS = [5, 17, 3, 60, 44, 9, 31, 12, 7, 80]

pytestmark = pytest.mark.filterwarnings("ignore:builtin type Swig:DeprecationWarning")


def decoded(path: Path, count: int = len(TOKENS)) -> np.ndarray:
    with models.load(path, DEVICE, SETTINGS) as model:
        model.prefill(TOKENS[:4])
        return np.stack([model.decode(token) for token in TOKENS[4:count]])


def close(found: np.ndarray, wanted: np.ndarray, bound: float = 0.005) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@pytest.mark.parametrize("files", [1, 3])
def test_llama_directories(tmp_path: Path, files: int) -> None:
    checkpoints.llama_directory(tmp_path, GROUPED, RandomWeights(GROUPED), files)
    with opened(tmp_path) as (config, weights):
        assert config == replace(GROUPED, stops=(2,), start=1)
        assert set(weights) == set(RandomWeights(GROUPED))
    close(decoded(tmp_path), scores(GROUPED, RandomWeights(GROUPED), TOKENS)[4:])


def test_gpt2_and_bert_directories(tmp_path: Path) -> None:
    for name, write in (("gpt2", checkpoints.gpt2_directory), ("bert", checkpoints.bert_directory)):
        (tmp_path / name).mkdir()
        config = GPT2 if name == "gpt2" else BERT
        write(tmp_path / name, config, RandomWeights(config))
    close(decoded(tmp_path / "gpt2"), scores(GPT2, RandomWeights(GPT2), TOKENS)[4:])
    with models.load_encoder(tmp_path / "bert", DEVICE, (8, 16)) as encoder:
        for count in (3, 8, 10):
            found = encoder.encode(TOKENS[:count])
            weights, wanted = RandomWeights(BERT), states(BERT, RandomWeights(BERT), TOKENS[:count])
            close(found.states, wanted)
            assert found.pooled is not None
            close(found.pooled, np.tanh(wanted[0] @ weights["pooler.weight"].T + weights["pooler.bias"]), 0.01)
            with pytest.raises(GenerationError, match="token 83"):
                encoder.encode([83])
        with pytest.raises(ContextFull, match="16 tokens, not 17"):
            encoder.encode([5] * 17)
    with pytest.raises(UnsupportedError, match="cannot continue"):
        models.load(tmp_path / "bert", DEVICE)
    with pytest.raises(UnsupportedError, match="it is no encoder"):
        models.load_encoder(tmp_path / "gpt2", DEVICE)


def test_bfloat16_tensors(tmp_path: Path) -> None:
    import ml_dtypes

    rounded = {name: array.astype(ml_dtypes.bfloat16) for name, array in RandomWeights(LLAMA).items()}
    checkpoints.llama_directory(tmp_path, LLAMA, rounded)
    plain = {name: array.astype(np.float32) for name, array in rounded.items()}
    close(decoded(tmp_path), scores(LLAMA, plain, TOKENS)[4:])


@pytest.mark.parametrize("wrong", [np.float32(1e5), np.float32(np.nan), np.float32(-np.inf), np.int8(1)])
def test_weights_that_fp16_does_not_hold_are_refused(tmp_path: Path, wrong: np.generic) -> None:
    weights = dict(RandomWeights(LLAMA))
    name = "layers.1.up.weight"
    weights[name] = weights[name].astype(wrong.dtype)
    weights[name][3, 5] = wrong
    checkpoints.llama_directory(tmp_path, LLAMA, weights)
    for precision in models.Precision:
        with pytest.raises(FormatError, match=r"layers\.1\.up\.weight .expected floats within 65504"):
            models.load(tmp_path, DEVICE, replace(SETTINGS, precision=precision))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("tied", [False, True])
def test_llama2c_checkpoints(tmp_path: Path, version: int, tied: bool) -> None:
    config = replace(LLAMA, tied=tied)
    weights = RandomWeights(config)
    checkpoints.llama2c_checkpoint(tmp_path / "model.bin", config, weights, version)
    found = llama2c.Llama2cCheckpoint(tmp_path / "model.bin")
    assert found.config == replace(config, stops=(1, 2), start=1)
    assert set(found.weights) == set(weights)
    for name, array in found.weights.items():
        if version < 2:
            np.testing.assert_array_equal(array, weights[name])
        else:
            assert np.abs(array - weights[name]).max() <= np.abs(weights[name]).max() / 250
    if version == 0:
        close(decoded(tmp_path / "model.bin"), scores(config, weights, TOKENS)[4:])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_broken_checkpoints_are_refused(tmp_path: Path, version: int) -> None:
    """Cut, lengthened, and every number of the header changed: another size than the file has, or no model."""
    path = tmp_path / "model.bin"
    checkpoints.llama2c_checkpoint(path, LLAMA, RandomWeights(LLAMA), version)
    good, first = path.read_bytes(), 8 if version else 0
    numbers = np.frombuffer(good, "<i4", 7, first).tolist()
    changed = [(first + 4 * place, value.to_bytes(4, "little", signed=True)) for place in range(7)
               for value in (0, -1, 1 << 30, -numbers[place], numbers[place] + 1)]
    if version:
        changed.pop()  # nothing in the file is as long as the context
        changed.remove((28, (-numbers[5]).to_bytes(4, "little", signed=True)))  # as llama2.c may write it
        changed += [(0, b"\0\0"), (4, b"\3"), (36, b"\1")]  # magic, version, whether the output is tied
    if version == 2:
        changed += [(37, value.to_bytes(4, "little", signed=True)) for value in (0, -32, 7, 16, 1 << 30)]
    cases = [good[:count] for count in (0, 100, 255, 256, len(good) - 4)] + [good + bytes(4)]
    cases += [good[:place] + value + good[place + len(value):] for place, value in changed]
    for broken in cases:
        path.write_bytes(broken)
        with pytest.raises(FormatError):
            llama2c.Llama2cCheckpoint(path)


def _with(data: bytes, place: int, value: int) -> bytes:
    return data[:4 * place] + np.array([value], "<i4").tobytes() + data[4 * place + 4:]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "model_type": lambda d: d.update(model_type="mamba"), "'hidden_size'": lambda d: d.update(hidden_size="64"),
    "multiple of the key": lambda d: d.update(num_key_value_heads=3),
    "'rms_norm_eps'": lambda d: d.update(rms_norm_eps=-1), "use_sliding_window": lambda d: d.update(
        use_sliding_window=True), "activation": lambda d: d.update(hidden_act="glu"),
    "rope_type": lambda d: d.update(rope_scaling={"rope_type": "spiral"}),
    "short_factor of a rope": lambda d: d.update(rope_scaling={"rope_type": "linear", "short_factor": [1]}),
    "base of rotary": lambda d: d.update(rope_theta=1), "factor of rotary": lambda d: d.update(
        rope_scaling={"type": "dynamic", "factor": 1e300}),
    "partial_rotary_factor": lambda d: d.update(rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
    "layer_types": lambda d: d.update(layer_types=["full_attention", "sliding_attention"]),
    "quantization_config": lambda d: d.update(quantization_config={"quant_method": "gptq"}),
    "final_logit_softcapping": lambda d: d.update(final_logit_softcapping=30.0),
    "expected 1 layers": lambda d: d.update(num_hidden_layers=1),
    "'tie_word_embeddings'": lambda d: d.update(tie_word_embeddings=1), "a weight is missing": lambda d: d.update(
        attention_bias=True), "'eos_token_id'": lambda d: d.update(eos_token_id="x"),
}


@pytest.mark.parametrize("message", CHANGES)
def test_configurations_that_are_not_built_are_refused(tmp_path: Path, message: str) -> None:
    checkpoints.llama_directory(tmp_path, LLAMA, RandomWeights(LLAMA))
    document = json.loads((tmp_path / "config.json").read_text())
    CHANGES[message](document)
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises((FormatError, UnsupportedError), match=message):
        models.load(tmp_path, DEVICE, SETTINGS)


@pytest.mark.parametrize("field", ["scale_attn_weights", "scale_attn_by_inverse_layer_idx", "add_cross_attention"])
def test_attention_of_another_kind_is_refused(tmp_path: Path, field: str) -> None:
    checkpoints.gpt2_directory(tmp_path, GPT2, RandomWeights(GPT2))
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**document, field: field == "scale_attn_by_inverse_layer_idx" or
                                                      field == "add_cross_attention"}))
    with pytest.raises(UnsupportedError, match=field):
        models.load(tmp_path, DEVICE, SETTINGS)


@pytest.mark.parametrize(("name", "message"), [
    ("model.layers.0.self_attn.q_norm.weight", "heads of this model_type are not normalised"),
    ("model.layers.0.input_layernorm.bias", "no bias, as config"), ("lm_head.bias", "no bias, as config"),
    ("model.layers.1.mlp.experts.0.up_proj.weight", "no layer of the llama family"),
    ("model.layers.0.mlp.up_proj.scales", "no layer of the llama family"),
    ("model.layers.1.self_attn.v_proj.bias", "no bias, as config"),
    ("model.layers.2.input_layernorm.weight", "2 layers")])
def test_tensors_that_would_change_the_numbers_are_refused(tmp_path: Path, name: str, message: str) -> None:
    from safetensors.numpy import load_file, save_file

    checkpoints.llama_directory(tmp_path, LLAMA, RandomWeights(LLAMA))
    tensors = load_file(tmp_path / "model.safetensors")
    buffers = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}  # of old files: computed here
    save_file(tensors | buffers, tmp_path / "model.safetensors")
    with opened(tmp_path) as (_, weights):
        assert set(weights) == set(RandomWeights(LLAMA))
    save_file({**tensors, name: np.ones(64, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises((FormatError, UnsupportedError), match=message):
        models.load(tmp_path, DEVICE, SETTINGS)


def test_a_tokenizer_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    checkpoints.llama2c_checkpoint(tmp_path / "model.bin", LLAMA, RandomWeights(LLAMA), 0)
    checkpoints.llama2c_tokenizer(tmp_path / "other.bin")
    with pytest.raises(FormatError, match=r"another vocabulary .*expected 97, found 27\d"):
        models.load(tmp_path / "model.bin", DEVICE, SETTINGS, tmp_path / "other.bin")
    with pytest.raises(FormatError, match="is not there"):
        models.load(tmp_path / "model.bin", DEVICE, SETTINGS, tmp_path / "none.bin")


def test_directories_without_what_it_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not there"):
        models.load(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"config\.json"):
        models.load(tmp_path)
    checkpoints.llama_directory(tmp_path, LLAMA, RandomWeights(LLAMA))
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(FormatError, match="not a safetensors file"):
        models.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FormatError, match="holds no weights"):
        models.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../b.safetensors"}}')
    with pytest.raises(FormatError, match="names of files beside it"):
        models.load(tmp_path)
    for text in ("[]", "{", "[" * 100000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(FormatError, match=r"config\.json"):
            models.load(tmp_path)


def _rope(scaling: Mapping[str, object] | None, **more: object) -> Rope:
    return of_huggingface({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
                           "intermediate_size": 64, "vocab_size": 10, "max_position_embeddings": 4096,
                           "rope_scaling": scaling, **more}).rope


def test_stretched_rotary_positions() -> None:
    """Properties of each way: what is kept, what is divided by the factor."""
    plain = 10000.0 ** (-np.arange(8) / 8)
    assert np.allclose(frequencies(_rope(None), 16, 64)[0], plain)
    assert np.allclose(frequencies(_rope({"type": "linear", "factor": 4.0}), 16, 64)[0], plain / 4)
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 1024}
    found, scale = frequencies(_rope(llama3), 16, 64)
    turns = 1024 * plain / (2 * np.pi)
    assert scale == 1
    assert np.allclose(found[turns >= 4], plain[turns >= 4])
    assert np.allclose(found[turns <= 1], plain[turns <= 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.any()
    assert ((found[between] < plain[between]) & (found[between] > plain[between] / 8)).all()
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    found, scale = frequencies(_rope(yarn, rope_theta=1e6), 128, 32768)
    plain = 1e6 ** (-np.arange(64) / 64)
    assert scale == pytest.approx(0.1 * np.log(4) + 1)
    assert np.allclose(found[:20], plain[:20])
    assert np.allclose(found[-10:], plain[-10:] / 4)
    assert (np.diff(found) < 0).all()
    exact = frequencies(_rope({**yarn, "truncate": False, "mscale": 1.0, "mscale_all_dim": 0.5}, rope_theta=1e6), 128,
                        32768)
    assert exact[1] == pytest.approx((0.1 * np.log(4) + 1) / (0.05 * np.log(4) + 1))
    blended = np.flatnonzero((exact[0] < plain) & (exact[0] > plain / 4))[[0, -1]]
    assert (exact[0] >= found)[blended[0]]  # bounds that are not rounded outwards lie further in
    assert (exact[0] <= found)[blended[1]]
    assert not np.allclose(exact[0], found, rtol=1e-4)
    dynamic = _rope({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4096})
    assert np.allclose(frequencies(dynamic, 16, 4096)[0], 10000.0 ** (-np.arange(8) / 8))
    assert (frequencies(dynamic, 16, 8192)[0][1:] < 10000.0 ** (-np.arange(8) / 8)[1:]).all()
