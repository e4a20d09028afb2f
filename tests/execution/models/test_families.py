"""Families of decoders beside transformers: random weights saved by it, tokens forced, in prefill and step by step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn
from support.needs import library

from openane import models

torch = library("torch")
transformers = library("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
DEVICE = "simulator?arithmetic=fast"
LENGTH, PREFILLED, VOCABULARY = 72, 44, 97
SETTINGS = models.LanguageSettings(models.Buckets((LENGTH,), (16,)), scores=True)
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 96, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0}
GROUPED = SIZES | {"num_key_value_heads": 2}
GEMMA = GROUPED | {"head_dim": 24, "query_pre_attn_scalar": 32, "sliding_window": 20}
GPT = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "bos_token_id": 1,
       "eos_token_id": 2}
EXPERTS = GROUPED | {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "intermediate_size": 40,
                     "num_hidden_layers": 2}
BY_TURNS = ["sliding_attention", "full_attention", "sliding_attention"]
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 1.5, 2.0, 2.5],
        "long_factor": [2.0, 2.5, 3.0, 4.0, 5.0, 6.0], "partial_rotary_factor": 0.75,
        "original_max_position_embeddings": 80}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("Gemma", GROUPED | {"head_dim": 24}),
    "gemma2": ("Gemma2", GEMMA | {"attn_logit_softcapping": 8.0, "final_logit_softcapping": 30.0}),
    "gemma3": ("Gemma3Text", GEMMA | {"sliding_window_pattern": 3}),
    "phi3": ("Phi3", GROUPED | {"sliding_window": 30}),
    "phi3, longrope": ("Phi3", GROUPED | {"original_max_position_embeddings": 80, "rope_scaling": LONG}),
    "phi3, long": ("Phi3", GROUPED | {"original_max_position_embeddings": 24, "rope_scaling": LONG | {
        "original_max_position_embeddings": 24}}),
    "smollm3": ("SmolLM3", GROUPED | {"no_rope_layer_interval": 2}),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 25}),
    "qwen2": ("Qwen2", GROUPED | {"sliding_window": 25, "use_sliding_window": True, "max_window_layers": 2}),
    "olmo": ("Olmo", GROUPED), "olmo2": ("Olmo2", GROUPED),
    "gpt_neox": ("GPTNeoX", SIZES | {"rotary_pct": 0.25}),
    "gpt_neox, not parallel": ("GPTNeoX", SIZES | {"use_parallel_residual": False, "rotary_pct": 1.0}),
    "starcoder2": ("Starcoder2", GROUPED | {"sliding_window": 40}),
    "olmo3": ("Olmo3", GROUPED | {"sliding_window": 25, "layer_types": BY_TURNS, "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0,
                           "original_max_position_embeddings": 32},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}}),
    "granite": ("Granite", GROUPED | {"embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                                      "residual_multiplier": 0.4, "logits_scaling": 2.0}),
    "ministral": ("Ministral", GROUPED | {"sliding_window": 25, "head_dim": 24, "layer_types": BY_TURNS}),
    "helium": ("Helium", GROUPED | {"head_dim": 16, "attention_bias": True}),
    "ernie4_5": ("Ernie4_5", GROUPED | {"head_dim": 16, "use_bias": True}),
    "seed_oss": ("SeedOss", GROUPED | {"head_dim": 24, "attention_out_bias": True}),
    "arcee": ("Arcee", GROUPED), "glm": ("Glm", GROUPED | {"head_dim": 24}),
    "glm4": ("Glm4", GROUPED | {"head_dim": 24}),
    "exaone4": ("Exaone4", GROUPED | {"sliding_window": 25, "sliding_window_pattern": 2}),
    "cwm": ("Cwm", GROUPED | {"head_dim": 16, "sliding_window": 25}),
    "gptj": ("GPTJ", GPT | {"rotary_dim": 8}), "gpt_neo": ("GPTNeo", SIZES | {
        "num_layers": 3, "num_heads": 4, "window_size": 25, "attention_types": [[["global", "local", "local"], 1]]}),
    "gpt_bigcode": ("GPTBigCode", GPT),
    "opt": ("OPT", SIZES | {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "bloom": ("Bloom", {"vocab_size": VOCABULARY, "hidden_size": 72, "n_layer": 3, "n_head": 6}),
    "mpt": ("Mpt", {"vocab_size": VOCABULARY, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 128}),
    "codegen": ("CodeGen", GPT | {"rotary_dim": 8, "n_head": 8}),
    "nemotron": ("Nemotron", GROUPED | {"partial_rotary_factor": 0.5}),
    "phi": ("Phi", GROUPED), "stablelm": ("StableLm", GROUPED | {"use_qkv_bias": True, "use_parallel_residual": True}),
    "falcon": ("Falcon", SIZES | {"bias": True}), "falcon, own keys": ("Falcon", SIZES | {
        "multi_query": False, "parallel_attn": False}),
    "falcon, newer": ("Falcon", SIZES | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "cohere": ("Cohere", GROUPED),
    "cohere2": ("Cohere2", GROUPED | {"sliding_window": 25, "sliding_window_pattern": 2}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | {"head_dim": 24, "norm_topk_prob": True}),
    "olmoe": ("Olmoe", EXPERTS),
    "qwen2_moe": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 56}),
    "granitemoe": ("GraniteMoe", GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2,
                                            "attention_multiplier": 0.25, "logits_scaling": 2.0}),
    "mixtral": ("Mixtral", GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
}


def saved(folder: Path, kind: str, sizes: dict[str, Any]) -> Any:
    """A decoder in a directory."""
    config = getattr(transformers, f"{kind}Config")(**sizes)
    return drawn(folder, lambda: transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"),
                 lambda name, weight: 1 if "embed" in name else weight.shape[-1] ** -0.5, 0.2)


def answers(theirs: Any, experts: int) -> list[tuple[list[int], np.ndarray]]:
    """Texts and the scores of what follows, in float32; with experts those texts whose tokens have experts that no
    rounding changes, because another expert gives other numbers."""
    found: list[tuple[list[int], np.ndarray]] = []
    for seed in range(200):
        tokens = np.random.default_rng(seed).integers(3, VOCABULARY, LENGTH).tolist()
        with torch.no_grad():
            answer = theirs(torch.tensor([tokens]), **({"output_router_logits": True} if experts else {}))
        best = [np.sort(layer.numpy(), -1) for layer in answer.router_logits] if experts else []
        if all((layer[:, -experts] - layer[:, -experts - 1]).min() > 0.008 for layer in best):
            found.append((tokens, answer.logits[0].numpy()))
        if len(found) == 3:
            break
    return found


def test_sums_beyond_fp16(tmp_path: Path) -> None:
    """Gemma's layers add up to more than fp16 holds."""
    theirs = saved(tmp_path, "Gemma3Text", GEMMA)
    with torch.no_grad():
        for layer in theirs.model.layers:
            layer.post_feedforward_layernorm.weight += 30000
    theirs.save_pretrained(tmp_path)
    tokens = np.random.default_rng(0).integers(3, VOCABULARY, 20).tolist()
    with torch.no_grad():
        answer = theirs(torch.tensor([tokens]), output_hidden_states=True)
    wanted = answer.logits[0].numpy()
    assert max(float(states.abs().max()) for states in answer.hidden_states[:-1]) > 100000
    with models.load(tmp_path, DEVICE, SETTINGS) as model:
        np.testing.assert_allclose(model.score(tokens), wanted, atol=0.02 * np.abs(wanted).max())


def test_the_text_part_of_a_model_that_sees_images(tmp_path: Path) -> None:
    """Gemma 3 with images: the same numbers as its text part alone."""
    from safetensors.torch import save_file

    theirs = saved(tmp_path, "Gemma3Text", GEMMA)
    tensors = {name.replace("model.", "model.language_model.", 1): weight.contiguous()
               for name, weight in theirs.state_dict().items() if name != "lm_head.weight"}
    tensors["model.vision_tower.encoder.layers.0.self_attn.q_proj.weight"] = torch.ones(4, 4)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": document,
                                                      "vision_config": {"hidden_size": 4}, "eos_token_id": [2, 106]}))
    [(tokens, wanted), *_] = answers(theirs, 0)
    with models.load(tmp_path, DEVICE, SETTINGS) as model:
        np.testing.assert_allclose(model.score(tokens), wanted, atol=0.02 * np.abs(wanted).max())
        assert model.stops == {2, 106}


@pytest.mark.parametrize("name", ["gemma3", "bloom"])
def test_the_engine_places_keys_and_values_where_masks_expect_them(name: str, tmp_path: Path) -> None:
    theirs = saved(tmp_path, *FAMILIES[name])
    [(tokens, wanted), *_] = answers(theirs, 0)
    settings = replace(SETTINGS, placement=models.CacheWriter.ENGINE, buckets=models.Buckets((48, LENGTH), (16,)),
                       cache=tmp_path / "cache")
    for _ in range(2):  # compiled, and from the cache
        with models.load(tmp_path, DEVICE, settings) as model:
            found = np.concatenate([model.score(tokens[:PREFILLED]),
                                    *(model.decode(token)[None] for token in tokens[PREFILLED:])])
        np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_agree_with_transformers(name: str, tmp_path: Path) -> None:
    kind, sizes = FAMILIES[name]
    theirs = saved(tmp_path, kind, sizes)
    agreed = []
    with models.load(tmp_path, DEVICE, SETTINGS) as model:
        texts = answers(theirs, sizes.get("num_experts_per_tok", 0))
        assert len(texts) == 3
        for tokens, wanted in texts:
            model.reset()
            found = np.concatenate([model.score(tokens[:PREFILLED]),
                                    *(model.decode(token)[None] for token in tokens[PREFILLED:])])
            np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())
            same, best = found.argmax(-1) == wanted.argmax(-1), np.sort(wanted, -1)
            assert same[best[:, -1] - best[:, -2] > 0.02 * np.abs(wanted).max()].all()
            agreed.append(same)
        for function in model.runner.models.values():
            assert not function.host_operations
    assert np.mean(agreed) >= 0.98  # random scores have ties that rounding decides
