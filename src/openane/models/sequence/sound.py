"""Samples of a WAV file: any number of channels and any rate, as one channel at the rate a model wants."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from openane.errors import FormatError, UnsupportedError

LONGEST = 1 << 28
"""Samples of one file: some hours."""


def read_wav(path: str | Path, rate: int = 16000) -> np.ndarray:
    """float32 samples from -1 to 1, at `rate`. FormatError for a file that is no WAV file, UnsupportedError for one
    whose samples are no whole numbers or that is too long."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, found, count = (file.getnchannels(), file.getsampwidth(), file.getframerate(),
                                             file.getnframes())
            if count * channels > LONGEST:
                raise UnsupportedError(str(path), "the sound has too many samples", limit=LONGEST,
                                       found=count * channels, remedy="cut it into several files")
            data = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise FormatError(f"{path} is no WAV file of whole numbers: {error}; "
                          f"for example: ffmpeg -i {path} -ac 1 -ar {rate} -sample_fmt s16 mono.wav") from None
    samples = _numbers(data, width)
    whole = len(samples) // channels * channels
    return resampled(samples[:whole].reshape(-1, channels).mean(axis=1), found, rate)


def _numbers(data: bytes, width: int) -> np.ndarray:
    """Samples of `width` bytes, from -1 to 1; one byte is unsigned."""
    raw = np.frombuffer(data[:len(data) // width * width], np.uint8).reshape(-1, width)
    if width == 1:
        return (raw[:, 0].astype(np.float32) - 128) / 128
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width:] = raw
    return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Samples at another rate: what is above the lower rate's half is left out."""
    if rate == wanted or not len(samples):
        return samples.astype(np.float32)
    count = max(round(len(samples) * wanted / rate), 1)
    waves = np.fft.rfft(samples)[:count // 2 + 1]
    return np.asarray(np.fft.irfft(waves, count) * (count / len(samples)), np.float32)
