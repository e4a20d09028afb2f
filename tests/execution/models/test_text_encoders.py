"""Encoders of text that the transformers library saved, loaded from their directories: the same states and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn

from openane.models.text_encoders import load_text_encoder

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
DEVICE = "simulator?arithmetic=fast"
TOKENS = np.random.default_rng(0).integers(5, 90, 20).tolist()
SIZES: dict[str, Any] = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "intermediate_size": 96, "max_position_embeddings": 64, "num_labels": 3}
PADDED = SIZES | {"pad_token_id": 1, "max_position_embeddings": 66}
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": SIZES, "Roberta": PADDED, "XLMRoberta": PADDED, "Camembert": PADDED, "MPNet": PADDED,
    "DistilBert": {"vocab_size": 97, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96,
                   "max_position_embeddings": 64, "num_labels": 3},
    "Electra": SIZES | {"embedding_size": 32}, "Albert": SIZES | {"embedding_size": 32, "num_hidden_layers": 4,
                                                                  "num_hidden_groups": 2, "inner_group_num": 2},
    "ModernBert": SIZES | {"num_hidden_layers": 4, "local_attention": 8, "pad_token_id": 0,
                           "classifier_pooling": "mean"},
}


def saved(folder: Path, family: str, kind: str) -> Any:
    """A model for a task, in a directory."""
    import transformers

    sizes = FAMILIES[family] | ({"num_labels": 2} if kind == "ForQuestionAnswering" else {})
    config = getattr(transformers, f"{family}Config")(**sizes)
    return drawn(folder, lambda: getattr(transformers, f"{family}{kind}")(config))


def computed(made: Any) -> dict[str, np.ndarray]:
    """What the library makes of TOKENS."""
    import torch

    with torch.no_grad():
        found = made(torch.tensor([TOKENS]))
    return {name: value[0].numpy() for name, value in found.items() if hasattr(value, "numpy")}


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 0.004 * np.abs(wanted).max()
    cosine = (found * wanted).sum() / (np.linalg.norm(found) * np.linalg.norm(wanted))
    assert cosine >= 0.99999


@pytest.mark.parametrize("family", FAMILIES)
def test_states(family: str, tmp_path: Path) -> None:
    wanted = computed(saved(tmp_path, family, "Model"))
    with load_text_encoder(tmp_path, DEVICE, (24,)) as encoder:
        found = encoder.run(TOKENS)
        near(found["states"], wanted["last_hidden_state"])
        if "pooler_output" in wanted:
            near(found["pooled"], wanted["pooler_output"])
        near(encoder.embed(TOKENS), wanted["last_hidden_state"].mean(0))


@pytest.mark.parametrize("family", FAMILIES)
def test_classes_of_texts(family: str, tmp_path: Path) -> None:
    wanted = computed(saved(tmp_path, family, "ForSequenceClassification"))
    with load_text_encoder(tmp_path, DEVICE, (24,)) as encoder:
        near(encoder.run(TOKENS)["logits"], wanted["logits"])


@pytest.mark.parametrize("family", ["Bert", "ModernBert"])
def test_classes_of_words_and_answers(family: str, tmp_path: Path) -> None:
    wanted = computed(saved(tmp_path / "words", family, "ForTokenClassification"))
    with load_text_encoder(tmp_path / "words", DEVICE, (24,)) as encoder:
        near(encoder.run(TOKENS)["logits"], wanted["logits"])
    wanted = computed(saved(tmp_path / "answers", family, "ForQuestionAnswering"))
    with load_text_encoder(tmp_path / "answers", DEVICE, (24,)) as encoder:
        found = encoder.run(TOKENS)["logits"]
    near(found[:, 0], wanted["start_logits"])
    near(found[:, 1], wanted["end_logits"])
