"""WAV files, and something like speech when there is none at hand."""

from __future__ import annotations

import wave

import numpy as np
from detector import RATE

VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240))
"""Frequencies, in Hz, at which the mouth resounds when it says a vowel."""
BREADTH = 90.0
PITCH = 120.0
LOUD, QUIET = 0.3, 0.002


def read(path: str) -> np.ndarray:
    """The samples of a file, from -1 to 1. ValueError unless it has one channel of 16 bits, 16000 times a second."""
    with wave.open(path, "rb") as file:
        found = file.getnchannels(), file.getsampwidth() * 8, file.getframerate()
        if found != (1, 16, RATE):
            raise ValueError(f"{path} has {found[0]} channels of {found[1]} bits at {found[2]} Hz; write one of 16 "
                             f"bits at {RATE} Hz, for example: ffmpeg -i {path} -ac 1 -ar {RATE} -sample_fmt s16 "
                             "mono.wav")
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 2**15


def write(path: str, samples: np.ndarray) -> None:
    """A file of one channel of 16 bits."""
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * (2**15 - 1)).astype(np.int16).tobytes())


def made() -> np.ndarray:
    """Two words of six syllables in faint noise, a second of silence around each."""
    random = np.random.default_rng(5)
    parts = [np.zeros(RATE)]
    for _ in range(2):
        for _ in range(6):
            parts += [syllable(random.uniform(0.1, 0.22), VOWELS[random.integers(len(VOWELS))]),
                      random.normal(0, 0.02, RATE // 33)]
        parts.append(np.zeros(RATE))
    whole = np.concatenate(parts)
    return (whole + random.normal(0, QUIET, len(whole))).astype(np.float32)


def syllable(seconds: float, vowel: tuple[int, ...]) -> np.ndarray:
    """The harmonics of a voice whose pitch falls, as loud as the mouth makes them."""
    time = np.arange(int(RATE * seconds)) / RATE
    pitch = PITCH * np.linspace(1.1, 0.85, len(time)) * (1 + 0.03 * np.sin(2 * np.pi * 5 * time))
    turns = np.cumsum(pitch) / RATE
    total = np.zeros(len(time))
    for number in range(1, int(RATE / 2 / pitch.max())):
        frequency = number * PITCH
        loudness = sum(1 / (1 + ((frequency - peak) / BREADTH) ** 2) for peak in vowel)
        total += loudness * np.sin(2 * np.pi * number * turns)
    fade = np.minimum(1, np.minimum(np.arange(len(time)), np.arange(len(time))[::-1]) / (0.03 * RATE))
    return LOUD * fade * total / np.abs(total).max()
