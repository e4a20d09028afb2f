"""Speech to text: sounds as spectrograms, in windows of the model's length, and the tokens that say what to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openane.errors import FormatError, GenerationError, UnsupportedError
from openane.models.closing import Closing
from openane.models.config_document import ConfigDocument
from openane.models.documents import PREPROCESSOR
from openane.models.sequence.model import SequenceModel


@dataclass(frozen=True, slots=True)
class Spectrogram:
    """How a sound becomes channels of loudness, as a `preprocessor_config.json` of Whisper states it."""

    mels: int = 80
    rate: int = 16000
    window: int = 400
    hop: int = 160

    @staticmethod
    def of(values: Mapping[str, Any]) -> Spectrogram:
        """What the document states. UnsupportedError for another feature extractor, FormatError for other numbers."""
        document = ConfigDocument(values, PREPROCESSOR)
        kind = values.get("feature_extractor_type", "WhisperFeatureExtractor")
        if kind != "WhisperFeatureExtractor":
            raise UnsupportedError(f"feature_extractor_type of {PREPROCESSOR}", "only Whisper's is built",
                                   limit="WhisperFeatureExtractor", found=kind,
                                   remedy="make spectrograms yourself, and give them to SequenceModel.generate")
        return Spectrogram(document.whole("feature_size", 80), document.whole("sampling_rate", 16000),
                           document.whole("n_fft", 400), document.whole("hop_length", 160))

    def of_sound(self, samples: np.ndarray, frames: int) -> np.ndarray:
        """float32 [mels, frames] of samples from -1 to 1 at `rate`: logarithms of loudness, those of silence cut off 8
        below the loudest, behind the sound silence."""
        sound = np.zeros(frames * self.hop, np.float64)
        count = min(len(samples), len(sound))
        sound[:count] = samples[:count]
        padded = np.pad(sound, self.window // 2, mode="reflect")
        turns = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)
        pieces = np.lib.stride_tricks.sliding_window_view(padded, self.window)[::self.hop][:frames]
        power = np.abs(np.fft.rfft(pieces * turns, axis=1)) ** 2
        loud = np.log10(np.maximum(power @ mel_filters(self.mels, self.rate, self.window), 1e-10)).T
        return np.asarray((np.maximum(loud, loud.max() - 8) + 4) / 4, np.float32)


def mel_filters(count: int, rate: int, window: int) -> np.ndarray:
    """Triangles over the frequencies of a window, evenly apart on Slaney's scale and of one area, [frequencies,
    count]."""
    edges = _from_mels(np.linspace(0, _to_mels(np.array(rate / 2)), count + 2))
    frequencies = np.linspace(0, rate / 2, window // 2 + 1)
    widths = np.diff(edges)
    slopes = edges[None, :] - frequencies[:, None]
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2]))


BREAK, STEP, GROWTH = 1000.0, 200.0 / 3, 27 / np.log(6.4)
"""Slaney's scale: even up to 1000 Hz, a mel every 66.7 Hz; from there on logarithmic."""


def _to_mels(hertz: np.ndarray) -> np.ndarray:
    return np.where(hertz < BREAK, hertz / STEP, BREAK / STEP + np.log(np.maximum(hertz, BREAK) / BREAK) * GROWTH)


def _from_mels(mels: np.ndarray) -> np.ndarray:
    return np.where(mels < BREAK / STEP, mels * STEP, BREAK * np.exp((mels - BREAK / STEP) / GROWTH))


@dataclass(frozen=True, slots=True)
class Wording:
    """What begins every answer, and tokens that are not written, as a `generation_config.json` states them."""

    prefix: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    never_first: tuple[int, ...] = ()

    @staticmethod
    def of(values: Mapping[str, Any], language: str | None = None, task: str | None = None) -> Wording:
        """What the document states, for a language (`en`) and a task (transcribe, translate). UnsupportedError lists
        those there are; FormatError for what are no tokens."""
        document = ConfigDocument(values, "generation_config.json")
        prefix = _asked(document, language, task) or _forced(document)
        plain = document.tokens("no_timestamps_token_id")
        return Wording((*prefix, *(token for token in plain if token not in prefix)),
                       (*document.tokens("suppress_tokens"), *plain), document.tokens("begin_suppress_tokens"))


def _asked(document: ConfigDocument, language: str | None, task: str | None) -> tuple[int, ...]:
    """The tokens of a language and a task, where the model knows several."""
    asked = (("lang_to_id", f"<|{language or 'en'}|>", "language"), ("task_to_id", task or "transcribe", "task"))
    return tuple(_token(document, known, name, what) for known, name, what in asked if document.values.get(known))


def _forced(document: ConfigDocument) -> tuple[int, ...]:
    """The tokens that begin every answer: pairs of a place and a token, which may be none."""
    pairs = document.values.get("forced_decoder_ids") or []
    whole = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int and type(pair[1]) in (int, type(None))
        for pair in pairs)
    if not whole:
        raise FormatError(f"'forced_decoder_ids' of {document.file}", expected="pairs of a place and a token",
                          found=pairs)
    return tuple(token for _, token in sorted(pairs, key=lambda pair: pair[0]) if token is not None)


def _token(document: ConfigDocument, table: str, name: str, what: str) -> int:
    known = document.values[table]
    if not isinstance(known, dict) or any(type(token) is not int for token in known.values()):
        raise FormatError(f"{table!r} of {document.file}", expected="names and tokens", found=known)
    if name not in known:
        raise UnsupportedError(f"{what} {name!r}", "the model does not know it", limit=", ".join(sorted(known)),
                               remedy=f"ask for a {what} of these")
    return int(known[name])


class SpeechModel(Closing):
    """Writes down what is said. Close it, or use it in a `with` statement."""

    def __init__(self, model: SequenceModel, spectrogram: Spectrogram, wording: Wording) -> None:
        if not model.config.mels:
            raise UnsupportedError(f"a {model.config.family} model", "reads texts, not sounds",
                                   remedy="openane.models.sequence.load_sequence")
        self.model, self.spectrogram, self.wording = model, spectrogram, wording

    def close(self) -> None:
        """Gives the model back."""
        self.model.close()

    @property
    def seconds(self) -> float:
        """How much sound the model reads at a time."""
        return 2 * self.model.source * self.spectrogram.hop / self.spectrogram.rate

    def tokens(self, samples: np.ndarray) -> Iterator[Sequence[int]]:
        """The tokens of one window of the sound after another. Samples are from -1 to 1, at the model's rate."""
        if samples.ndim != 1:
            raise GenerationError(f"a sound is one channel of samples, not {list(samples.shape)}")
        frames = 2 * self.model.source
        for begin in range(0, max(len(samples), 1), frames * self.spectrogram.hop):
            window = self.spectrogram.of_sound(samples[begin:begin + frames * self.spectrogram.hop], frames)
            yield list(self.model.generate(window, None, self.wording.prefix, self.wording.never,
                                           self.wording.never_first))

    def transcribe(self, samples: np.ndarray) -> Iterator[str]:
        """The text of one window of the sound after another. GenerationError without a tokenizer."""
        if self.model.tokenizer is None:
            raise GenerationError("the model has no tokenizer; tokens() gives the tokens")
        for tokens in self.tokens(samples):
            yield self.model.tokenizer.decode(list(tokens)).strip()
