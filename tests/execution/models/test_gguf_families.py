"""GGUF files of families, converted as llama.cpp does: the configuration and weights of the same directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from support.needs import library

from openane.models.config import Rope
from openane.models.families.registry import of_huggingface
from openane.models.load import opened
from openane.models.rope import frequencies

torch = library("torch")
transformers = library("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
SIZES: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {"vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 128, "bos_token_id": 1,
       "eos_token_id": 2}
EXPERTS = SIZES | {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                   "norm_topk_prob": True, "num_hidden_layers": 2}
GEMMA = SIZES | {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.25], "long_factor": [2.0, 2.5],
        "original_max_position_embeddings": 32, "attention_factor": 1.25, "partial_rotary_factor": 0.5}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SIZES), "mixtral": ("Mixtral", EXPERTS), "gemma": ("Gemma", SIZES | {"head_dim": 16}),
    "gemma2": ("Gemma2", GEMMA), "gemma3": ("Gemma3Text", GEMMA), "phi3": ("Phi3", SIZES),
    "phi3, longrope": ("Phi3", SIZES | {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "smollm3": ("SmolLM3", SIZES), "olmo": ("Olmo", SIZES), "olmo2": ("Olmo2", SIZES), "granite": ("Granite", SIZES | {
        "embedding_multiplier": 2.0, "attention_multiplier": 0.5, "residual_multiplier": 0.25, "logits_scaling": 4.0}),
    "starcoder2": ("Starcoder2", SIZES), "nemotron": ("Nemotron", SIZES), "gptneox": ("GPTNeoX", SIZES),
    "phi2": ("Phi", SIZES), "stablelm": ("StableLm", SIZES | {"use_qkv_bias": True}),
    "command-r": ("Cohere", SIZES), "cohere2": ("Cohere2", SIZES | {"sliding_window": 24}),
    "qwen3moe": ("Qwen3Moe", EXPERTS), "olmoe": ("Olmoe", EXPERTS | {"norm_topk_prob": False}),
    "gpt2": ("GPT2", GPT), "starcoder": ("GPTBigCode", GPT), "bloom": ("Bloom", {
        "vocab_size": 61, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
}
PAIRED = {"llama", "mixtral", "smollm3", "olmo", "granite"}
"""Architectures whose rows of queries and keys llama.cpp stores with the two halves of a rotary pair side by side."""
ARCHITECTURES = {"mixtral": "llama", "phi3, longrope": "phi3"}


def converted(name: str, config: Any, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors by llama.cpp's names, in its form."""
    architecture = ARCHITECTURES.get(name, name)
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    found: dict[str, np.ndarray] = {}
    experts: dict[str, list[np.ndarray]] = {}
    for theirs, array in tensors.items():
        part, kind = theirs.removeprefix("transformer." if name == "bloom" else "").rsplit(".", 1)
        if ".experts." in part:
            front, _, rest = part.partition(".experts.")
            experts.setdefault(f"{front}.experts.{rest.partition('.')[2]}", []).append(array)
            continue
        ours = names.get_name(part)
        assert ours is not None, theirs
        if theirs == "lm_head.weight" and config.tie_word_embeddings:
            continue
        found[f"{ours}.{kind}"] = changed(name, config, ours.split(".")[-1], kind, array)
    for part, arrays in experts.items():
        found[f"{names.get_name(part)}.weight"] = np.stack(arrays)
    return found


def changed(name: str, config: Any, part: str, kind: str, array: np.ndarray) -> np.ndarray:
    """What llama.cpp's converter does with one tensor."""
    if part in ("attn_q", "attn_k") and name in PAIRED:
        heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
        return array.reshape(heads, 2, array.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)
    if "norm" in part and kind == "weight" and (name.startswith("gemma") or name == "nemotron"):
        return array + 1
    if part == "attn_qkv" and name in ("gptneox", "bloom"):
        heads = config.num_attention_heads
        return array.reshape(heads, 3, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
    return array.T if name == "gpt2" and array.ndim == 2 and part not in ("token_embd", "position_embd") else array


def fields(writer: Any, config: Any, name: str) -> None:
    """What llama.cpp's converter writes of a configuration."""
    def get(*names: str) -> Any:
        return next((getattr(config, n) for n in names if getattr(config, n, None) is not None), None)

    heads = config.num_attention_heads
    kv_heads = 1 if name == "starcoder" else get("num_key_value_heads") or heads
    size = get("head_dim") or config.hidden_size // heads
    rope = get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    told = {"context_length": get("max_position_embeddings", "seq_length") or 2048,
            "block_count": get("num_hidden_layers"), "embedding_length": config.hidden_size, "head_count": heads,
            "head_count_kv": kv_heads,
            "feed_forward_length": get("intermediate_size", "n_inner") or 4 * config.hidden_size,
            "layer_norm_rms_eps": get("rms_norm_eps"), "rope_freq_base": rope.get("rope_theta"),
            "layer_norm_eps": get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"),
            "attn_logit_softcapping": get("attn_logit_softcapping"), "embedding_scale": get("embedding_multiplier"),
            "final_logit_softcapping": get("final_logit_softcapping"), "residual_scale": get("residual_multiplier"),
            "attention_scale": get("attention_multiplier"), "logit_scale": get("logits_scaling", "logit_scale"),
            "expert_count": get("num_local_experts", "num_experts"), "expert_used_count": get("num_experts_per_tok"),
            "expert_feed_forward_length": get("moe_intermediate_size"), "sliding_window": get("sliding_window"),
            "key_length": size, "parallel_residual": get("use_parallel_residual"), "eos_token_id": 2,
            "bos_token_id": 1, "rope_dimension_count": int(size * rope.get("partial_rotary_factor", 1))}
    for key, value in told.items():
        if value is not None:
            getattr(writer, f"add_{key}")(value)
    if rope.get("short_factor"):
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_attn_factors(rope["attention_factor"])
        for kind in ("short", "long"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], np.float32))


@pytest.mark.parametrize("name", CASES)
def test_files_are_read_as_their_directories(name: str, tmp_path: Path) -> None:
    kind, sizes = CASES[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        weight.data = torch.randn_like(weight)
    model.save_pretrained(tmp_path)
    writer = gguf.GGUFWriter(str(tmp_path / "model.gguf"), ARCHITECTURES.get(name, name))
    fields(writer, config, name)
    for part, array in converted(name, config, load_file(tmp_path / "model.safetensors")).items():
        writer.add_tensor(part, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with opened(tmp_path) as (wanted, weights), opened(tmp_path / "model.gguf") as (found, unpacked):
        rounded = {"epsilon": wanted.epsilon} if abs(found.epsilon / wanted.epsilon - 1) < 1e-6 else {}
        assert replace(found, family=wanted.family, **rounded) == replace(wanted, start=1, stops=(2,))
        assert set(unpacked) == set(weights)
        for each, array in weights.items():
            np.testing.assert_allclose(unpacked[each], array, rtol=1e-5, atol=1e-6, err_msg=each)


def test_frequencies_of_llama_3(tmp_path: Path) -> None:
    """llama.cpp keeps what each frequency is divided by as a tensor."""
    stretched = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 64}
    wanted = of_huggingface({"model_type": "llama", **SIZES, "rope_scaling": stretched})
    plain, stretched_ones = (frequencies(rope, 8, 64)[0] for rope in (Rope(), wanted.rope))
    writer = gguf.GGUFWriter(str(tmp_path / "model.gguf"), "llama")
    fields(writer, transformers.LlamaConfig(**SIZES), "llama")
    writer.add_tensor("rope_freqs.weight", (plain / stretched_ones).astype(np.float32))
    writer.add_tensor("token_embd.weight", np.ones((61, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with opened(tmp_path / "model.gguf") as (found, _):
        np.testing.assert_allclose(frequencies(found.rope, 8, 64)[0], stretched_ones, rtol=1e-6)
        assert frequencies(found.rope, 8, 64)[1] == 1
