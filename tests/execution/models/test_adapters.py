"""LoRA adapters: swapped without compiling, other kinds refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks.language import RandomWeights
from support import checkpoints
from support.language_reference import LLAMA, NORMED, scores

from openane import models
from openane.errors import FormatError, UnsupportedError
from openane.models.rope import order

DEVICE = "simulator?arithmetic=fast"
SETTINGS = models.LanguageSettings(models.Buckets((32,), (8,)))
TOKENS = [5, 17, 3, 60, 44, 9, 31, 12, 7, 80]


def close(found: np.ndarray, wanted: np.ndarray, bound: float = 0.005) -> None:
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


def test_adapters_of_rows_in_another_order() -> None:
    """Queries and keys of an adapter are in the checkpoint's order of rotary pairs, the weights in ours."""
    config = replace(LLAMA, rope=models.Rope(turned=8, neighbours=True), residual_scale=0.5)
    places = order(config.rope, config.head_size)
    assert places is not None
    weights, random = dict(RandomWeights(config)), np.random.default_rng(3)
    matrices, adapted = {}, dict(weights)
    for part in ("query", "key", "down"):
        outputs, inputs = config.sizes[part]
        down, up = 0.1 * random.standard_normal((4, inputs)), random.standard_normal((outputs, 4))
        matrices[0, part] = down.astype(np.float32), up.astype(np.float32)
        rows = up if part == "down" else up.reshape(-1, len(places), 4)[:, places].reshape(up.shape)
        adapted[f"layers.0.{part}.weight"] = weights[f"layers.0.{part}.weight"] + (rows @ down).astype(np.float32)
    slots, found = models.Slots(frozenset({"query", "key", "down"}), 4), []
    for each, room, adapter in ((weights, slots, models.Adapter(matrices)), (adapted, None, None)):
        with models.LanguageModel(config, each, DEVICE, replace(SETTINGS, slots=room)) as model:
            if adapter is not None:
                model.use(adapter)
            model.prefill(TOKENS[:4])
            found.append(np.stack([model.decode(token) for token in TOKENS[4:]]))
    close(*found)


@pytest.mark.parametrize("config", [LLAMA, NORMED], ids=["llama", "heads normalised"])
def test_adapters_are_swapped_without_compiling(tmp_path: Path, config: models.Config) -> None:
    weights, parts = dict(RandomWeights(config)), ("query", "value", "output", "gate", "down")
    changed = [checkpoints.adapter_directory(_folder(tmp_path, seed), config, parts, 4, 8.0, seed) for seed in (1, 2)]
    slots = models.Slots(frozenset(parts), 6)
    with models.LanguageModel(config, weights, DEVICE, replace(SETTINGS, slots=slots)) as model:
        compiled = model.runner.models

        def found() -> np.ndarray:
            model.prefill(TOKENS[:4])
            return np.stack([model.decode(token) for token in TOKENS[4:]])

        close(found(), scores(config, weights, TOKENS)[4:])
        for seed, added in enumerate(changed, 1):
            model.use(models.load_adapter(tmp_path / str(seed)))
            adapted = {name: weights[name] + added.get(name, np.float32(0)) for name in weights}
            close(found(), scores(config, adapted, TOKENS)[4:], 0.01)
        model.use(None)
        close(found(), scores(config, weights, TOKENS)[4:])
        assert model.runner.models == compiled
        with pytest.raises(FormatError, match="no room for an adapter"):
            model.use(models.Adapter({(0, "up"): (np.zeros((2, 64)), np.zeros((96, 2)))}))
        with pytest.raises(FormatError, match="adapter of layer 0, value"):
            model.use(models.Adapter({(0, "value"): (np.zeros((2, 63)), np.zeros((64, 2)))}))
    with models.LanguageModel(config, weights, DEVICE, SETTINGS) as model, pytest.raises(FormatError, match="slots"):
        model.use(models.load_adapter(tmp_path / "1"))


@pytest.mark.parametrize("field", ["use_dora", "rank_pattern", "alpha_pattern", "peft_type", "r", "lora_alpha"])
def test_adapters_of_another_kind_are_refused(tmp_path: Path, field: str) -> None:
    checkpoints.adapter_directory(tmp_path, LLAMA, ("query",), 4, 8.0, 1)
    document = json.loads((tmp_path / "adapter_config.json").read_text())
    values = {"use_dora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 2}, "peft_type": "IA3",
              "r": 0, "lora_alpha": 1e309}
    (tmp_path / "adapter_config.json").write_text(json.dumps({**document, field: values[field]}))
    with pytest.raises((FormatError, UnsupportedError), match=field):
        models.load_adapter(tmp_path)
    with pytest.raises(FormatError, match=r"adapter_config\.json"):
        models.load_adapter(tmp_path / "nowhere")


def _folder(parent: Path, number: int) -> Path:
    (parent / str(number)).mkdir()
    return parent / str(number)
