"""Sequence-to-sequence models beside transformers: random weights, cached decoding, tokens forced."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn
from support.needs import library

from openane.cli import main
from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models.sequence import SequenceSettings, load_sequence, load_speech
from openane.models.sequence.sound import read_wav
from openane.models.sequence.speech import Spectrogram, Wording

torch = library("torch")
transformers = library("transformers")
SOURCE, ANSWER = 24, 32
SIZES = {"vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "max_position_embeddings": 64}
SIZES["encoder_attention_heads"] = SIZES["decoder_attention_heads"]
TEACHER = {"d_model": 32, "d_kv": 8, "num_layers": 2, "num_heads": 4, "d_ff": 48, "vocab_size": 97}
CONFIGS: dict[str, Callable[[], Any]] = {
    "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**TEACHER)),
    "t5 gated": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(
        **TEACHER, num_decoder_layers=3, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "mt5": lambda: transformers.MT5ForConditionalGeneration(transformers.MT5Config(**TEACHER)),
    "bart": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(
        **SIZES, forced_eos_token_id=None)),
    "bart scaled": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(
        **SIZES, scale_embedding=True, activation_function="relu", forced_eos_token_id=None)),
    "mbart": lambda: transformers.MBartForConditionalGeneration(transformers.MBartConfig(
        **SIZES, scale_embedding=True, forced_eos_token_id=None)),
    "pegasus": lambda: transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(
        **SIZES, scale_embedding=True, forced_eos_token_id=None)),
    "marian": lambda: transformers.MarianMTModel(transformers.MarianConfig(
        **SIZES, scale_embedding=True, pad_token_id=0, decoder_start_token_id=5, eos_token_id=2,
        forced_eos_token_id=None)),
}
SPEECH = {key: size for key, size in SIZES.items() if key != "max_position_embeddings"}


def saved(make: Callable[[], Any], folder: Path) -> Any:
    return drawn(folder, make, lambda name, weight: 0.15 if "relative" not in name else 1, 0, 1)


def agreement(found: list[np.ndarray], wanted: np.ndarray) -> float:
    ours = np.stack(found)
    np.testing.assert_allclose(ours, wanted, atol=0.03 * np.abs(wanted).max())
    return float((ours.argmax(-1) == wanted.argmax(-1)).mean())


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_agree_with_transformers(name: str, tmp_path: Path) -> None:
    theirs = saved(CONFIGS[name], tmp_path)
    random = np.random.default_rng(2)
    with load_sequence(tmp_path, settings=SequenceSettings(SOURCE, ANSWER)) as model:
        shares = []
        for length in (17, SOURCE):
            source, answer = random.integers(3, 97, length), random.integers(3, 97, ANSWER)
            answer[0] = model.config.start
            with torch.no_grad():
                wanted = theirs(input_ids=torch.tensor(source[None]), decoder_input_ids=torch.tensor(answer[None]))
            states = model.read(source.tolist())
            hidden = wanted.encoder_last_hidden_state[0].numpy()
            np.testing.assert_allclose(states, hidden, atol=0.02 * np.abs(hidden).max())
            shares.append(agreement([model.step(int(token)) for token in answer], wanted.logits[0].numpy()))
        assert np.mean(shares) >= 0.99
        assert not model.model.host_operations
        with pytest.raises(ContextFull):
            model.step(5)
        with pytest.raises(GenerationError, match="token 97"):
            model.read([97])
        with pytest.raises(ContextFull):
            model.read([5] * (SOURCE + 1))


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_answers_are_those_of_generate(name: str, tmp_path: Path) -> None:
    theirs = saved(CONFIGS[name], tmp_path)
    source = np.random.default_rng(3).integers(3, 97, 11).tolist()
    with load_sequence(tmp_path, settings=SequenceSettings(SOURCE, ANSWER)) as model:
        found = list(model.generate(source, 20))
        start = model.config.start
    wanted = theirs.generate(torch.tensor([source]), max_new_tokens=20, do_sample=False, num_beams=1,
                             decoder_start_token_id=start)[0].tolist()
    assert found == [token for token in wanted[1:] if token not in (theirs.config.eos_token_id,)][:len(found)]
    assert len(found) >= len(wanted) - 2


def whisper(folder: Path) -> Any:
    config = transformers.WhisperConfig(**SPEECH, num_mel_bins=80, max_source_positions=50, max_target_positions=48,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
                                        suppress_tokens=None, begin_suppress_tokens=None)
    return saved(lambda: transformers.WhisperForConditionalGeneration(config), folder)


def test_whisper(tmp_path: Path) -> None:
    theirs = whisper(tmp_path)
    extractor = transformers.WhisperFeatureExtractor(chunk_length=1)
    extractor.save_pretrained(tmp_path)
    random = np.random.default_rng(4)
    sound = (0.3 * np.sin(np.arange(13000) * 0.05) + 0.05 * random.standard_normal(13000)).astype(np.float32)
    features = extractor(sound, sampling_rate=16000, return_tensors="np").input_features
    np.testing.assert_allclose(Spectrogram().of_sound(sound, 100), features[0], atol=2e-3)
    with load_speech(tmp_path, settings=SequenceSettings(context=40)) as speech:
        answer = random.integers(4, 97, 40)
        answer[0] = 3
        with torch.no_grad():
            wanted = theirs(input_features=torch.tensor(features), decoder_input_ids=torch.tensor(answer[None]))
        model = speech.model
        hidden = wanted.encoder_last_hidden_state[0].numpy()
        np.testing.assert_allclose(model.read(features[0]), hidden, atol=0.02 * np.abs(hidden).max())
        assert agreement([model.step(int(token)) for token in answer], wanted.logits[0].numpy()) >= 0.97
        assert speech.seconds == 1.0
        [tokens, _] = speech.tokens(np.concatenate([sound, sound]))
        assert len(tokens) <= 40
        with pytest.raises(GenerationError, match="no tokenizer"):
            next(speech.transcribe(sound))


def test_a_sound_is_written_down_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whisper(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"feature_size": 80}')
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(22050)
        file.writeframes((np.random.default_rng(5).standard_normal((30000, 2)) * 3000).astype("<i2").tobytes())
    assert main(["transcribe", str(tmp_path / "sound.wav"), "--model", str(tmp_path), "--context", "8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sound_seconds"] == pytest.approx(30000 / 22050, abs=1e-3)
    assert [len(text.split()) for text in document["windows"]] == [8, 8]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_any_width_and_rate(width: int, tmp_path: Path) -> None:
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    whole = (np.round(wanted * 2 ** (8 * width - 1)) + (128 if width == 1 else 0)).astype("<i8")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(whole.view(np.uint8).reshape(-1, 8)[:, :width].tobytes())
    found = read_wav(tmp_path / "sound.wav", 16000)
    np.testing.assert_allclose(found[::2][100:-100], wanted[100:-100], atol=0.01)
    (tmp_path / "sound.wav").write_bytes(b"RIFF")
    with pytest.raises(FormatError, match="no WAV file"):
        read_wav(tmp_path / "sound.wav")


def test_what_begins_an_answer() -> None:
    known = {"lang_to_id": {"<|en|>": 10, "<|de|>": 11}, "task_to_id": {"transcribe": 20, "translate": 21},
             "no_timestamps_token_id": 30, "suppress_tokens": [7], "begin_suppress_tokens": [8]}
    assert Wording.of(known) == Wording((10, 20, 30), (7, 30), (8,))
    assert Wording.of(known, "de", "translate").prefix == (11, 21, 30)
    assert Wording.of({"forced_decoder_ids": [[1, 5], [2, 6]]}).prefix == (5, 6)
    with pytest.raises(UnsupportedError, match=r"<\|fr\|>.*<\|de\|>, <\|en\|>"):
        Wording.of(known, "fr")
    for wrong in ({"suppress_tokens": ["a"]}, {"lang_to_id": ["en"]}, {"forced_decoder_ids": [[1]]}):
        with pytest.raises(FormatError, match=rf"'{next(iter(wrong))}' of generation_config\.json"):
            Wording.of(wrong)
    with pytest.raises(FormatError, match=r"'hop_length' of preprocessor_config\.json"):
        Spectrogram.of({"hop_length": 0})


def test_other_models_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedError, match="'llama': is no sequence-to-sequence"):
        load_sequence(tmp_path)
    saved(CONFIGS["t5"], tmp_path)
    with pytest.raises(UnsupportedError, match="reads texts"):
        load_speech(tmp_path)
    configuration = json.loads((tmp_path / "config.json").read_text())
    for kind, match, changed in ((UnsupportedError, "quantization_config", {"quantization_config": {"bits": 8}}),
                                 (UnsupportedError, "activation 'mish'", {"feed_forward_proj": "gated-mish"}),
                                 (FormatError, "'layer_norm_epsilon'", {"layer_norm_epsilon": "small"}),
                                 (FormatError, "weight shared.weight", {"vocab_size": 98})):
        (tmp_path / "config.json").write_text(json.dumps(configuration | changed))
        with pytest.raises(kind, match=match):
            load_sequence(tmp_path)
