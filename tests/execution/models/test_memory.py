"""Hundreds of decode steps leave nothing but the text; functions share what they can; compiled once is enough."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from networks.language import RandomWeights
from support import checkpoints
from support.needs import library

from openane import models
from openane.compiler import pipeline
from openane.models import Buckets, Config, LanguageModel, LanguageSettings, Options, Residence, Sampling, language
from openane.simulator import kernels

STEPS = 300


def blocks() -> int:
    """Blocks of memory that live objects hold, arrays among them."""
    gc.collect()
    return sys.getallocatedblocks()


def test_memory_stays_flat() -> None:
    kernels.kernels()  # they come when a program has run for a while, and stay
    config = Config("llama", 512, 32, 1, 2, 1, 16, 64, 512)
    settings = LanguageSettings(Buckets((STEPS + 10,), ()))
    with LanguageModel(config, RandomWeights(config), "simulator?arithmetic=fast", settings) as model:
        stream = model.stream([1], Options(STEPS, Sampling(1.0, seed=0)))
        for _ in range(20):
            next(stream)
        before = blocks()
        for _ in range(STEPS - 40):
            next(stream)
        assert blocks() - before < 2 * (STEPS - 40)  # each token is a number that is kept
        stream.close()  # type: ignore[attr-defined]


WIDE = Config("llama", 512, 128, 2, 4, 2, 32, 512, 64)
BUCKETS = Buckets((32,), (16,))
PROMPT = 18


def loaded_bytes(buckets: Buckets) -> int:
    """What a model of so many functions holds once all of them were run."""
    tracemalloc.start()
    with LanguageModel(WIDE, RandomWeights(WIDE), "simulator?arithmetic=fast", LanguageSettings(buckets)) as model:
        model.prefill(list(range(3, 3 + PROMPT)))
        model.decode(3)
        gc.collect()
        found = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return found


def test_functions_share_their_weights() -> None:
    """The simulator's float32 weights of a prompt's function are those of the step's."""
    with mock.patch.object(kernels, "worth", return_value=False):
        loaded_bytes(BUCKETS)  # tables that are fitted once, and compiled arithmetic, are no model's
        one, both = loaded_bytes(Buckets((32,), ())), loaded_bytes(BUCKETS)
    assert one > 4 * WIDE.weights  # float32
    assert both - one < 2 * WIDE.weights  # operations, buffers; another copy would be 4 times that more


def test_the_weights_of_a_step_are_read_where_they_lie() -> None:
    """Where compiled loops are at hand."""
    library("numba")
    with mock.patch.object(kernels, "worth", return_value=True):
        loaded_bytes(BUCKETS)
        one, both = loaded_bytes(Buckets((32,), ())), loaded_bytes(BUCKETS)
    assert one < 4 * WIDE.weights
    assert both > 4 * WIDE.weights


@pytest.mark.parametrize("residence", Residence)
def test_a_model_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, residence: Residence) -> None:
    made: list[str] = []
    plan = pipeline.best_plan
    monkeypatch.setattr(pipeline, "best_plan", lambda graph, *rest: made.append(graph.name) or plan(graph, *rest))
    config = Config("llama", 64, 32, 1, 2, 1, 16, 64, 64)
    scores = []
    for seed, settings in ((0, LanguageSettings(BUCKETS, residence=residence)),
                           *[(0, LanguageSettings(BUCKETS, residence=residence, cache=tmp_path))] * 2,
                           (1, LanguageSettings(BUCKETS, residence=residence, cache=tmp_path))):
        with LanguageModel(config, RandomWeights(config, seed), "simulator?arithmetic=fast", settings) as model:
            scores.append(model.score(range(3, 8)))
    assert made == ["decode", "prefill_16"] * 3  # without the cache, into it, and for other weights
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[3])


def test_a_known_checkpoint_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its functions are in the cache not even their graphs are built; a checkpoint that changed is another."""
    built: list[str] = []
    build = language.build
    monkeypatch.setattr(language, "build", lambda parameters, step: built.append(step.name) or build(parameters, step))
    config, file = Config("llama", 64, 32, 1, 2, 1, 16, 64, 64, start=1, stops=(1, 2)), tmp_path / "model.bin"

    def scores(buckets: Buckets = BUCKETS) -> np.ndarray:
        with models.load(file, "simulator?arithmetic=fast", LanguageSettings(buckets,
                                                                             cache=tmp_path / "cache")) as model:
            return model.score(range(3, 8))

    checkpoints.llama2c_checkpoint(file, config, RandomWeights(config), 0)
    first = scores()
    np.testing.assert_array_equal(scores(), first)
    assert built == ["decode", "prefill_16"]
    np.testing.assert_allclose(scores(Buckets((24,), (16,))), first, atol=0.01 * np.abs(first).max())
    assert built == ["decode", "prefill_16"] * 2
    checkpoints.llama2c_checkpoint(file, config, RandomWeights(config, 1), 0)
    assert not np.array_equal(scores(), first)
    assert built == ["decode", "prefill_16"] * 3
