"""Decoders in the simulator against a float32 reference of our own, on the whole text and step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from networks.language import RandomWeights
from support.language_reference import BERT, GPT2, GROUPED, LLAMA, NORMED, scores

import openane as ane
from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models import Buckets, CacheWriter, Config, LanguageModel, LanguageSettings, Precision, Residence, Rope
from openane.models.decoder import build
from openane.models.layers import CheckpointParameters
from openane.models.steps import ModelStep

DEVICE = "simulator?arithmetic=fast"
BUCKETS = Buckets((32, 48), (8, 16))
FEW = Buckets((32,), (8,))
BOUND = 0.005
"""Of the largest score: fp16 between operations, tables of tanh and of powers of two."""
FAMILIES = {"llama": LLAMA, "grouped": GROUPED, "gpt2": GPT2, "heads normalised": NORMED}


def text(config: Config, count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(3, config.vocabulary, count).tolist()


def close(found: np.ndarray, wanted: np.ndarray, bound: float = BOUND) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@pytest.mark.parametrize("placement", CacheWriter)
@pytest.mark.parametrize("name", FAMILIES)
def test_prefill_and_decode_are_the_reference(name: str, placement: CacheWriter) -> None:
    config = FAMILIES[name]
    weights, tokens = RandomWeights(config), text(config, 44)
    wanted = scores(config, weights, tokens)
    with LanguageModel(config, weights, DEVICE, LanguageSettings(BUCKETS, scores=True, placement=placement)) as model:
        whole = model.score(tokens[:27])  # chunks of 16, then of 8 and 3, rows beyond the text masked
        stepwise = np.stack([model.decode(token) for token in tokens[27:]])  # past 32: the longer bucket
        found = np.concatenate([whole, stepwise])
        close(found, wanted)
        assert model.tokens == tuple(tokens)
        assert (model.usage.placed > 0) == (placement is CacheWriter.HOST)
        decided = margin(wanted) > 2 * BOUND * np.abs(wanted).max()
        assert decided.mean() > 0.5
        assert (found.argmax(-1) == wanted.argmax(-1))[decided].all()
        # the cache is what a longer prefill leaves
        model.rewind(20)
        model.prefill(tokens[20:43])
        close(model.decode(tokens[43]), found[43])


def margin(wanted: np.ndarray) -> np.ndarray:
    """How far the largest score is above the next."""
    best = np.sort(wanted, axis=-1)
    return best[:, -1] - best[:, -2]


def test_host_places_exactly_what_the_engine_blends() -> None:
    tokens = text(GROUPED, 30)
    found, caches = [], []
    for placement in CacheWriter:
        with LanguageModel(GROUPED, RandomWeights(GROUPED), DEVICE,
                           LanguageSettings(FEW, placement=placement)) as model:
            model.prefill(tokens[:20])
            found.append(np.stack([model.decode(token) for token in tokens[20:]]))
            caches.append([model.runner.read("keys")[..., :30], model.runner.read("values")[:, :, :30]])
    for first, second in zip(*caches, strict=True):
        close(second.astype(np.float32), first.astype(np.float32), 2e-3)
    close(found[1], found[0], 2e-3)


def test_bytes_placed_are_those_of_the_new_tokens() -> None:
    with LanguageModel(GROUPED, RandomWeights(GROUPED), DEVICE, LanguageSettings(FEW)) as model:
        each = 2 * 2 * GROUPED.layers * GROUPED.kv_heads * GROUPED.head_size
        model.prefill(text(GROUPED, 11))
        assert model.usage.placed == 11 * each
        model.decode(5)
        assert model.usage.placed == 12 * each


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.PALETTE4])
def test_compressed_weights_are_folded(precision: Precision) -> None:
    """The model is that of the weights as they come back from 8 or 4 bits: the reference with those agrees."""
    parameters = CheckpointParameters(LLAMA, RandomWeights(LLAMA), precision)
    graph = build(parameters, ModelStep("decode", 1, 32, 32))
    compressed = [node for node in graph.nodes if node.op.startswith("constexpr_")]
    assert len(compressed) == 1 + 5 * LLAMA.layers
    tokens = text(LLAMA, 12)
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, LanguageSettings(Buckets((16,), ()), precision)) as model:
        found = np.stack([model.decode(token) for token in tokens])
    wanted = scores(LLAMA, RandomWeights(LLAMA), tokens)
    apart = np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std()
    assert 0.002 < apart < (0.03 if precision is Precision.INT8 else 0.35)


def test_one_function_at_a_time_gives_the_same_numbers() -> None:
    tokens = text(GROUPED, 30)
    found = []
    for residence in (Residence.ALL, Residence.ONE):
        with LanguageModel(GROUPED, RandomWeights(GROUPED), DEVICE,
                           LanguageSettings(FEW, residence=residence)) as model:
            model.prefill(tokens[:16])
            found.append(np.stack([model.decode(token) for token in tokens[16:]]))
            assert (model.usage.switches > 1) == (residence is Residence.ONE)
    assert (found[0] == found[1]).all()


def test_everything_runs_on_the_engine() -> None:
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, LanguageSettings(BUCKETS)) as model:
        for function in model.runner.models.values():
            assert not function.host_operations
            for program in function.programs:
                ane.verify(program)
        assert list(model.runner.models) == ["decode_48", "decode_32", "prefill_8", "prefill_16"]


def test_long_vocabularies_are_split_by_the_compiler() -> None:
    """More outputs than one task has channels, and more coefficients than one task takes."""
    config = replace(GROUPED, vocabulary=70001, layers=1)
    tokens = text(config, 3)
    with LanguageModel(config, RandomWeights(config), DEVICE, LanguageSettings(Buckets((16,), ()))) as model:
        found = np.stack([model.decode(token) for token in tokens])
        assert not model.runner.models["decode"].host_operations
    close(found, scores(config, RandomWeights(config), tokens))


def test_limits_and_wrong_input() -> None:
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, LanguageSettings(Buckets((10,), (4,)))) as model:
        with pytest.raises(ContextFull, match="holds 10 tokens, not 11") as full:
            model.prefill(text(LLAMA, 11))
        assert (full.value.limit, full.value.asked) == (10, 11)
        with pytest.raises(GenerationError, match="token 97 is none of the 97"):
            model.decode(97)
        model.prefill(text(LLAMA, 10))
        with pytest.raises(ContextFull):
            model.decode(3)
        with pytest.raises(GenerationError, match="11 of them cannot be kept"):
            model.rewind(11)
        model.reset()
        assert model.tokens == ()
    with pytest.raises(ContextFull, match="holds 64 tokens, not 65"):
        LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, LanguageSettings(Buckets((65,), ())))
    with pytest.raises(UnsupportedError, match="cannot continue"):
        LanguageModel(BERT, RandomWeights(BERT), DEVICE)
    with pytest.raises(FormatError, match="a weight is missing"):
        LanguageModel(LLAMA, {}, DEVICE)
    with pytest.raises(FormatError, match=r"embedding.weight .expected \[97, 64\], found \[101, 96\]"):
        LanguageModel(LLAMA, RandomWeights(GROUPED), DEVICE)
    for contexts, prefill in (((), ()), ((8, 8), ()), ((8,), (4, 2)), ((0,), ()), ((8,), (1,))):
        with pytest.raises(GenerationError, match="that ascend"):
            Buckets(contexts, prefill)


def test_rotary_positions_far_out_keep_their_precision() -> None:
    """Tables are computed in float64: position 30000 of a long context turns as it should."""
    from openane.models.rope import table

    rope, place = Rope(1e6), 30000
    cosines, sines = table(rope, 64, 32768, np.array([place]))
    angles = place / 1e6 ** (np.arange(32) / 32)
    np.testing.assert_allclose(cosines[0, :32], np.cos(angles), atol=5e-4)
    np.testing.assert_allclose(sines[0, 32:], np.sin(angles), atol=5e-4)
    np.testing.assert_allclose(sines[0, :32], -np.sin(angles), atol=5e-4)


@pytest.mark.parametrize("device", ["linux?driver=simulated", "macos?runtime=simulated"])
def test_the_same_on_every_kind_of_device(device: str) -> None:
    config = replace(GROUPED, layers=1)
    tokens = text(config, 7)
    with LanguageModel(config, RandomWeights(config), device, LanguageSettings(Buckets((16,), (4,)))) as model:
        model.prefill(tokens[:4])
        found = np.stack([model.decode(token) for token in tokens[4:]])
        close(found, scores(config, RandomWeights(config), tokens)[4:])
        assert model.usage.placed == 7 * 2 * 2 * config.kv_heads * config.head_size
