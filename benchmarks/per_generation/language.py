"""Language models that read a prompt and continue it, and an encoder, beside their definitions in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from networks.language import CONFIGS, RandomWeights
from support.language_reference import BERT, GPT2, GROUPED, LLAMA, NORMED, scores, states

from openane.devices.protocol import Device
from openane.models import Buckets, CacheWriter, Config, LanguageModel, LanguageSettings, Precision, TextEncoder
from per_generation.case import LEAST_COSINE, Arrays, Case

BUCKETS = Buckets((64,), (8, 16))
PROMPT, CONTINUED = 30, 3
"""Tokens of a prompt, and how many follow it one by one."""
DECODERS = {"llama": LLAMA, "grouped": GROUPED, "heads_normalised": NORMED, "gpt2": GPT2, **CONFIGS}
PRECISIONS = {Precision.INT8: LEAST_COSINE, Precision.PALETTE4: 0.9}
"""Weights in fewer bits, and the least cosine to the scores of the weights as they were."""


def cases() -> dict[str, Callable[[], Case]]:
    """What makes each case, by name."""
    made: dict[str, Callable[[], Case]] = {name: partial(_decoder, config) for name, config in DECODERS.items()}
    made |= {f"llama_{precision}": partial(_decoder, LLAMA, LanguageSettings(BUCKETS, precision), least)
             for precision, least in PRECISIONS.items()}
    made["llama_cache_on_engine"] = partial(_decoder, LLAMA, LanguageSettings(BUCKETS, placement=CacheWriter.ENGINE))
    return made | {"bert": _encoder}


def _decoder(config: Config, settings: LanguageSettings | None = None, least: float = LEAST_COSINE) -> Case:
    weights = _weights(config)
    tokens = np.random.default_rng(1).integers(3, config.vocabulary, PROMPT + CONTINUED).tolist()
    base = settings or LanguageSettings(BUCKETS)

    def outputs(target: str, device: Device) -> Arrays:
        made = LanguageSettings(base.buckets, base.precision, base.placement, target=target)
        with LanguageModel(config, weights, device, made) as model:
            model.prefill(tokens[:PROMPT])
            return {f"scores of token {PROMPT + number}": model.decode(token)
                    for number, token in enumerate(tokens[PROMPT:])}

    def expected() -> Arrays:
        found = scores(config, weights, tokens)
        return {f"scores of token {number}": found[number] for number in range(PROMPT, PROMPT + CONTINUED)}

    return Case(outputs, expected, least)


def _encoder() -> Case:
    weights = _weights(BERT)
    tokens = np.random.default_rng(1).integers(0, BERT.vocabulary, PROMPT).tolist()

    def outputs(target: str, device: Device) -> Arrays:
        with TextEncoder(BERT, weights, device, (64,), target=target) as encoder:
            found = encoder.encode(tokens)
            assert found.pooled is not None
            return {"states": found.states, "pooled": found.pooled}

    return Case(outputs, lambda: {"states": states(BERT, weights, tokens)})


def _weights(config: Config) -> Arrays:
    """Drawn, as fp16 holds them."""
    return {name: array.astype(np.float16).astype(np.float32) for name, array in RandomWeights(config).items()}
