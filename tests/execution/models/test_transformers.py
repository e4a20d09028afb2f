"""Random models of the transformers library, saved by it, loaded from its directory: the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn

from openane import models

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
DEVICE = "simulator?arithmetic=fast"
TOKENS = np.random.default_rng(0).integers(3, 90, 40).tolist()
SIZES = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 96, "max_position_embeddings": 64}
LLAMA = SIZES | {"num_key_value_heads": 2}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
GPT2 = {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
        "eos_token_id": 2}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", LLAMA), "biases": ("Llama", LLAMA | {"attention_bias": True, "mlp_bias": True}),
    "yarn in full": ("Llama", LLAMA | {"rope_scaling": YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "mscale": 1.0,
                                                               "mscale_all_dim": 0.5, "truncate": False}}),
    "dynamic": ("Llama", LLAMA | {"rope_scaling": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}}),
    "own head size": ("Llama", LLAMA | {"head_dim": 24, "rms_norm_eps": 1e-2, "hidden_act": "relu"}),
    "llama3": ("Llama", LLAMA | {"rope_scaling": LLAMA3}), "yarn": ("Llama", LLAMA | {"rope_scaling": YARN}),
    "linear": ("Llama", LLAMA | {"rope_scaling": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
    "qwen2": ("Qwen2", LLAMA | {"tie_word_embeddings": True}), "mistral": ("Mistral", LLAMA),
    "qwen3": ("Qwen3", LLAMA | {"head_dim": 32}),
    "qwen3, biases": ("Qwen3", LLAMA | {"attention_bias": True, "head_dim": 16, "tie_word_embeddings": True}),
    "gpt2": ("GPT2", GPT2),
    "gpt2, untied": ("GPT2", GPT2 | {"tie_word_embeddings": False, "n_inner": 112, "activation_function": "gelu"}),
}


def saved(folder: Path, family: str, sizes: dict[str, Any], kind: str) -> Any:
    """A model in a directory; what it makes of TOKENS."""
    import torch
    import transformers

    config = getattr(transformers, f"{family}Config")(**sizes)
    made = drawn(folder, lambda: getattr(transformers, f"{family}{kind}")(config))
    with torch.no_grad():
        return made(torch.tensor([TOKENS]))


@pytest.mark.parametrize("name", DECODERS)
def test_decoders(name: str, tmp_path: Path) -> None:
    family, sizes = DECODERS[name]
    wanted = saved(tmp_path, family, sizes, "LMHeadModel" if family == "GPT2" else "ForCausalLM").logits[0].numpy()
    settings = models.LanguageSettings(models.Buckets((48,), (16,)), scores=True)
    with models.load(tmp_path, DEVICE, settings) as model:
        found = np.concatenate([model.score(TOKENS[:30]), *(model.decode(token)[None] for token in TOKENS[30:])])
    assert np.abs(found - wanted).max() <= 0.005 * np.abs(wanted).max()


def test_an_encoder(tmp_path: Path) -> None:
    wanted = saved(tmp_path, "Bert", SIZES | {"type_vocab_size": 2}, "Model")
    with models.load_encoder(tmp_path, DEVICE, (48,)) as encoder:
        found = encoder.encode(TOKENS)
    states = wanted.last_hidden_state[0].numpy()
    assert np.abs(found.states - states).max() <= 0.005 * np.abs(states).max()
    assert found.pooled is not None
    assert np.abs(found.pooled - wanted.pooler_output[0].numpy()).max() < 0.01
