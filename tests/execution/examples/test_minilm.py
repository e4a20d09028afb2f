"""The MiniLM example with its real weights, on a hundred sentences, against float32."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from support.needs import lacking

import openane as ane
from openane import models
from openane.ops.evaluate import evaluate

FOLDER = Path(__file__).parents[3] / "examples" / "minilm"
MODULES = ("encoder", "measures", "reference", "search", "weights")
TOKENS = 32


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules."""
    sys.path.insert(0, str(FOLDER))
    try:
        modules: dict[str, ModuleType] = {name: __import__(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
    yield SimpleNamespace(**modules)
    for name in (*MODULES, "network"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folder(example: SimpleNamespace) -> Path:
    found: Path | None = example.weights.model_folder()
    if found is None:
        lacking("weights of MiniLM", example.weights.INSTALL)
    return found


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    lines = (FOLDER / "sentences.txt").read_text().splitlines()
    assert len(set(lines)) == 100
    return lines


def test_everything_after_the_lookup_is_one_program(example: SimpleNamespace, folder: Path) -> None:
    model = example.encoder.SentenceEncoder(folder, 8).model
    assert model.one_program
    assert not model.host_operations
    ane.verify(model.program)


def test_embeddings_are_those_of_float32(example: SimpleNamespace, folder: Path, sentences: list[str]) -> None:
    encoder = example.encoder.SentenceEncoder(folder, TOKENS)
    numbers = example.search.token_numbers(encoder.tokenizer, sentences)
    assert max(map(len, numbers)) < TOKENS
    wanted = example.reference.embeddings(folder, numbers)
    found = encoder.encode(sentences, "simulator?arithmetic=fast")
    assert example.measures.cosines(wanted, found).min() >= 0.999
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 4e-3
    assert example.measures.spearman(wanted, found) >= 0.999
    same, decided = example.measures.neighbours(wanted, found)
    assert decided > 80
    assert same == decided


def test_a_lone_token_count_is_refused(example: SimpleNamespace, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"3\.\.128"):
        example.encoder.SentenceEncoder(folder, 1000)


def test_the_published_folder_as_any_encoder(example: SimpleNamespace, folder: Path, sentences: list[str]) -> None:
    tokenizer = example.encoder.SentenceEncoder(folder, TOKENS).tokenizer
    few = sentences[::25]
    wanted = example.reference.embeddings(folder, example.search.token_numbers(tokenizer, few))
    with models.load_encoder(folder, "simulator?arithmetic=fast") as encoder:
        means = np.array([encoder.encode(sentence).states.mean(axis=0) for sentence in few])
    found = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert example.measures.cosines(wanted, found).min() >= 0.999


def test_weights_of_8_bits_turn_embeddings_little(example: SimpleNamespace, folder: Path, sentences: list[str]) -> None:
    encoder = example.encoder.SentenceEncoder(folder, tokens=32)
    samples = [encoder.look_up(sentence) for sentence in sentences[:6]]
    found = ane.quantize(encoder.model.graph, "int8", samples=samples)
    assert len(found.layers) == 36
    assert all(layer.form == "int8" and layer.result_error < 0.02 for layer in found.layers)
    assert found.error < 0.035
    wanted, made = (np.concatenate([evaluate(graph, sample)["embedding"].reshape(1, -1) for sample in samples])
                    for graph in (encoder.model.graph, found.graph))
    assert example.measures.cosines(wanted, made).min() > 0.999
