"""The example that tells what files hold: Magika on the engine says what it says on onnxruntime."""

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
    with example_modules("files", "content", "samples") as modules:
        if modules.content.model_folder() is None:
            lacking("weights of Magika", modules.content.INSTALL)
        yield modules


def test_ten_kinds_are_told_apart(example: SimpleNamespace) -> None:
    folder = example.content.model_folder()
    known, beside = example.content.labels(folder), example.content.runtime_network(folder)
    kinds = []
    with example.content.EngineNetwork(folder, "simulator?arithmetic=fast") as network:
        assert network.model.one_program
        for content in example.samples.made().values():
            ends = example.content.ends_of(content)
            found, wanted = network(ends), beside(ends)
            assert np.abs(found - wanted).max() < 0.01
            kinds.append(known[found.argmax()])
    assert kinds == ["python", "c", "html", "shell", "makefile", "json", "png", "wav", "gzip", "sqlite"]


def test_both_ends_of_a_file_are_seen(example: SimpleNamespace) -> None:
    ends = example.content.ends_of(b"  ab\n")[0]
    assert [*ends[:5], *ends[-4:]] == [97, 98, 10, 256, 256, 32, 32, 97, 98]
    assert (ends[:1024] == example.content.ends_of(b"x" * 9000)[0][0]).sum() == 0
