"""The example that writes down music: Basic Pitch on the engine hears the tune, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from support.examples import example_modules
from support.needs import lacking


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules."""
    with example_modules("music", "notes", "pitches", "sound") as modules:
        if modules.pitches.model_file() is None:
            lacking("weights of Basic Pitch", modules.pitches.INSTALL)
        yield modules


def test_the_tune_is_written_down(example: SimpleNamespace) -> None:
    file, samples = example.pitches.model_file(), example.sound.made()
    with example.pitches.EngineNetwork(file, "simulator?arithmetic=fast") as network:
        assert not network.model.host_operations
        found = example.pitches.heard(samples, network)
    wanted = example.pitches.heard(samples, example.pitches.runtime_network(file))
    written, others = example.notes.found(*found), example.notes.found(*wanted)
    assert sorted(key for key, _, _ in example.sound.TUNE) == sorted(note.key for note in written)
    assert {(note.key, note.begin) for note in written} <= {(note.key, note.begin) for note in others}


def test_notes_of_frames(example: SimpleNamespace) -> None:
    sounding, beginning = np.zeros((60, 88)), np.zeros((60, 88))
    sounding[5:40, 39], beginning[5, 39] = 0.8, 0.9
    sounding[5:12, 50], beginning[5, 50] = 0.8, 0.9
    assert [(note.name, note.begin, note.end) for note in example.notes.found(sounding, beginning)] == [("C4", 5, 40)]


def test_a_midi_file(example: SimpleNamespace) -> None:
    data = example.notes.midi([example.notes.Note(0, 100, 60, 0.5)])
    track = data[22:]
    assert data[:14] == b"MThd\x00\x00\x00\x06\x00\x00\x00\x01\x01\xe0"
    assert track == bytes([0, 0x90, 60, 64, 0x88, 0x5b, 0x80, 60, 0, 0, 0xff, 0x2f, 0])
    assert int.from_bytes(data[18:22], "big") == len(track)
