"""Notes from what a network hears in every frame, and the MIDI file of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pitches import FRAME, RATE

BEGINS = 0.5
SOUNDS = 0.3
"""A note begins where a key's beginning is likelier than the first, and ends when it sounds less than the second."""
GAP = 11
"""Frames a note may be inaudible for, and the shortest note."""
LOWEST = 21
"""MIDI's number of the lowest key."""
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
TICKS = 480
"""Parts of a quarter; at 120 quarters a minute there are 960 in a second."""


@dataclass(frozen=True, order=True)
class Note:
    """A key, MIDI's number, from one frame up to another, and how loud it is, 0 to 1."""

    begin: int
    end: int
    key: int
    loudness: float

    @property
    def name(self) -> str:
        """The note's name and octave."""
        return f"{NAMES[self.key % 12]}{self.key // 12 - 1}"

    @property
    def seconds(self) -> tuple[float, float]:
        """From when to when it sounds."""
        return self.begin * FRAME / RATE, self.end * FRAME / RATE


def found(sounding: np.ndarray, beginning: np.ndarray) -> list[Note]:
    """The notes of [frames, 88] probabilities, by time. A note takes its neighbours' sound with it."""
    left = sounding.copy()
    peaks = np.zeros(beginning.shape, bool)
    peaks[1:-1] = (beginning[1:-1] > beginning[:-2]) & (beginning[1:-1] > beginning[2:]) & (beginning[1:-1] >= BEGINS)
    notes = []
    for begin, key in np.argwhere(peaks)[::-1]:
        end = _end(left[:, key], begin)
        if end - begin > GAP:
            notes.append(Note(int(begin), end, int(key) + LOWEST, float(sounding[begin:end, key].mean())))
            left[begin:end, max(key - 1, 0):key + 2] = 0
    return sorted(notes)


def _end(sound: np.ndarray, begin: int) -> int:
    """The frame after the last before a gap."""
    quiet = 0
    for place in range(begin + 1, len(sound)):
        quiet = quiet + 1 if sound[place] < SOUNDS else 0
        if quiet == GAP:
            return int(place + 1 - GAP)
    return len(sound) - quiet


def midi(notes: list[Note]) -> bytes:
    """A MIDI file of one track."""
    events = []
    for note in notes:
        begin, end = (round(seconds * 2 * TICKS) for seconds in note.seconds)
        events += [(begin, 1, bytes([0x90, note.key, max(1, round(127 * note.loudness))])),
                   (end, 0, bytes([0x80, note.key, 0]))]
    track, now = b"", 0
    for when, _, event in sorted(events):
        track += _length(when - now) + event
        now = when
    track += b"\x00\xff\x2f\x00"
    header = b"MThd" + (6).to_bytes(4, "big") + b"\x00\x00\x00\x01" + TICKS.to_bytes(2, "big")
    return header + b"MTrk" + len(track).to_bytes(4, "big") + track


def _length(number: int) -> bytes:
    """A number in sevens of bits, the highest first; all but the last are marked."""
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F | 0x80)
    return bytes(reversed(parts))
