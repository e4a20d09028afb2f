"""Hundreds of decode steps leave nothing behind but the text."""

from __future__ import annotations

import gc
import sys

from networks.language import RandomWeights

from openane.models import Buckets, Config, LanguageModel, Options, Sampling, Settings

STEPS = 300


def blocks() -> int:
    """Blocks of memory that live objects hold, arrays among them."""
    gc.collect()
    return sys.getallocatedblocks()


def test_memory_stays_flat() -> None:
    config = Config("llama", 512, 32, 1, 2, 1, 16, 64, 512)
    settings = Settings(Buckets((STEPS + 10,), ()))
    with LanguageModel(config, RandomWeights(config), "simulator?arithmetic=fast", settings) as model:
        stream = model.stream([1], Options(STEPS, Sampling(1.0, seed=0)))
        for _ in range(20):
            next(stream)
        before = blocks()
        for _ in range(STEPS - 40):
            next(stream)
        assert blocks() - before < 2 * (STEPS - 40)  # each token is a number that is kept
        stream.close()  # type: ignore[attr-defined]
