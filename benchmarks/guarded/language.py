"""Steps of small language models: decoding and reading a prompt, encoding, compressed weights, adapters, functions that
share a cache. Weights drawn for the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from networks.language import STORIES15M, shapes
from support.language_reference import BERT, GPT2, GROUPED, LLAMA, NORMED

from guarded.numbers import Numbers
from openane.compiler import Model, compile, compile_functions
from openane.graph import Graph
from openane.models import Buckets, CacheWriter, Config, Precision
from openane.models.adapters import Slots
from openane.models.decoder import build
from openane.models.encoder import build as build_encoder
from openane.models.layers import CheckpointParameters
from openane.models.steps import ModelStep

BUCKETS = Buckets((32, 48), (8, 16))
SLOTS = Slots(frozenset({"query", "value", "up", "down"}), 4)
DECODERS = {"llama": LLAMA, "grouped": GROUPED, "heads_normalised": NORMED, "gpt2": GPT2}


class Weights(Mapping[str, np.ndarray]):
    """Weights of a configuration, drawn by name when they are asked for; those of normalisations are near 1."""

    def __init__(self, config: Config) -> None:
        self._shapes = dict(shapes(config))

    def __getitem__(self, name: str) -> np.ndarray:
        shape = self._shapes[name]
        made = Numbers(name).exact(shape, 2.0 ** -(shape[-1].bit_length() // 2))
        return 1 + made if "norm" in name and name.endswith("weight") else made

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def makers() -> dict[str, Callable[[str], Model]]:
    """What compiles each step for a target, by name."""
    graphs: dict[str, Callable[[], Graph]] = {}
    for name, config in DECODERS.items():
        graphs |= {f"{name}_{step.name}": partial(_step, config, step) for step in steps()}
    graphs |= {f"llama_on_engine_{step.name}": partial(_step, LLAMA, step) for step in steps(CacheWriter.ENGINE)}
    graphs |= {f"llama_adapters_{step.name}": partial(_step, LLAMA, step) for step in steps(slots=SLOTS)}
    graphs |= {f"llama_{precision}_decode": partial(_step, LLAMA, steps()[0], precision)
               for precision in (Precision.INT8, Precision.PALETTE4)}
    graphs |= {f"bert_encode_{tokens}": partial(_encode, tokens) for tokens in (16, 64)}
    graphs["stories15m_decode"] = partial(_step, STORIES15M, ModelStep("decode", 1, 256, 256))
    made: dict[str, Callable[[str], Model]] = {name: partial(_compiled, graph) for name, graph in graphs.items()}
    return made | {"llama_functions": _functions}


def steps(placement: CacheWriter = CacheWriter.HOST, slots: Slots | None = None) -> tuple[ModelStep, ...]:
    """Two decoding functions and two for prompts."""
    return BUCKETS.steps(False, placement, slots)


def _compiled(graph: Callable[[], Graph], target: str) -> Model:
    return compile(graph(), target)


def _step(config: Config, step: ModelStep, precision: Precision = Precision.FP16) -> Graph:
    return build(CheckpointParameters(config, Weights(config), precision), step)


def _encode(tokens: int) -> Graph:
    step = ModelStep(f"encode_{tokens}", tokens, tokens, tokens, False)
    return build_encoder(CheckpointParameters(BERT, Weights(BERT)), step, True)


def _functions(target: str) -> Model:
    """All functions of a model, which share its states."""
    parameters = CheckpointParameters(LLAMA, Weights(LLAMA))
    return compile_functions([build(parameters, step) for step in steps()], target)
