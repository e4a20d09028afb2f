"""WAV files, and a little tune when there is none at hand."""

from __future__ import annotations

import wave

import numpy as np
from pitches import RATE

TUNE = ((60, 0.0, 0.5), (64, 0.5, 0.5), (67, 1.0, 0.5), (72, 1.5, 0.6), (69, 2.2, 0.5), (65, 2.2, 0.5), (67, 2.8, 0.9),
        (64, 2.8, 0.9), (60, 2.8, 0.9))
"""MIDI's number of each note, when it begins, and how long it is pressed, in seconds."""
SILENCE = 0.3
FADE = 1.6
"""How fast a string dies away, per second."""


def read(path: str) -> np.ndarray:
    """The samples of a file, from -1 to 1. ValueError unless it has one channel of 16 bits, 22050 times a second."""
    with wave.open(path, "rb") as file:
        found = file.getnchannels(), file.getsampwidth() * 8, file.getframerate()
        if found != (1, 16, RATE):
            raise ValueError(f"{path} has {found[0]} channels of {found[1]} bits at {found[2]} Hz; write one of 16 "
                             f"bits at {RATE} Hz, for example: ffmpeg -i {path} -ac 1 -ar {RATE} -sample_fmt s16 "
                             "mono.wav")
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 2**15


def made() -> np.ndarray:
    """The tune, on strings that are struck."""
    end = max(start + length for _, start, length in TUNE) + 2 * SILENCE
    total = np.zeros(int(end * RATE))
    for key, start, length in TUNE:
        begin = int((start + SILENCE) * RATE)
        string = struck(440 * 2 ** ((key - 69) / 12), length)
        total[begin:begin + len(string)] += string
    return (0.5 * total / np.abs(total).max()).astype(np.float32)


def struck(pitch: float, length: float) -> np.ndarray:
    """A string and its overtones, the higher the fainter and the shorter, stopped at the end."""
    time = np.arange(int(length * RATE)) / RATE
    edge = np.minimum(1, np.minimum(time / 0.005, (length - time) / 0.03))
    tones = (np.sin(2 * np.pi * number * pitch * time) * np.exp(-FADE * number * time) / number**1.2
             for number in range(1, 9))
    return edge * sum(tones)
