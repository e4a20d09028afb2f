"""The example that hears speech: Silero VAD in a stream, its state on the device, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.examples import example_modules
from support.needs import lacking


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules."""
    with example_modules("voice", "detector", "listen", "sound") as modules:
        if modules.detector.model_file() is None:
            lacking("weights of Silero VAD", modules.detector.INSTALL)
        yield modules


def test_words_are_heard_as_onnxruntime_hears_them(example: SimpleNamespace, tmp_path: Path) -> None:
    detector = example.detector
    example.sound.write(str(tmp_path / "words.wav"), example.sound.made())
    samples = example.sound.read(str(tmp_path / "words.wav"))
    with detector.VoiceDetector(detector.model_file(), "simulator") as found:
        assert found.model.one_program
        assert [state.name for state in found.model.states] == ["state"]
        chances = example.listen.heard(samples, found, detector.CHUNK)
    wanted = example.listen.heard(samples, detector.RuntimeDetector(detector.model_file()), detector.CHUNK)
    assert np.abs(chances - wanted).max() < 0.02
    assert len(example.listen.spoken(chances)) == 2
    assert example.listen.spoken(chances) == example.listen.spoken(wanted)


def test_speech_goes_on_until_it_is_clearly_over(example: SimpleNamespace) -> None:
    assert example.listen.spoken(np.array([0.1, 0.6, 0.4, 0.6, 0.2, 0.4, 0.9])) == [(1, 4), (6, 7)]


def test_another_rate_is_refused_with_a_way_out(example: SimpleNamespace, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example.sound, "RATE", 8000)
    example.sound.write(str(tmp_path / "slow.wav"), np.zeros(10))
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"8000 Hz(.|\n)*-ar 16000"):
        example.sound.read(str(tmp_path / "slow.wav"))
