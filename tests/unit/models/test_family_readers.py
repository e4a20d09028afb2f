"""Configurations of families read from their `config.json`: what they become, and what is refused by the field."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from openane.errors import AneError, FormatError, UnsupportedError
from openane.models.config import Config, Experts, Rope
from openane.models.families.registry import FAMILIES, NAMES, of_huggingface
from openane.models.layers import FAR
from openane.models.naming import FamilyNames, Renamed
from openane.models.rope import order, table
from openane.models.steps import CacheWriter, ModelStep
from openane.models.text import alibi_slopes, mask

SIZES: dict[str, Any] = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 6,
    "intermediate_size": 96, "vocab_size": 50, "max_position_embeddings": 128}
GPT = {"n_embd": 64, "n_head": 4, "n_layer": 6, "vocab_size": 50, "rotary_dim": 8, "hidden_size": 64,
       "d_model": 64, "n_heads": 4, "n_layers": 6, "attention_layers": ["global", "local"] * 3,
       "num_heads": 4, "num_layers": 6}


def read(kind: str, **more: Any) -> Config:
    return of_huggingface({"model_type": kind, "ffn_dim": 96, "text_config": SIZES, **SIZES, **GPT, **more})


def test_every_family_is_read_and_its_names_are_known() -> None:
    for kind in FAMILIES:
        config = read(kind)
        assert config.width == 64
        assert config.family in NAMES
        assert config.layers == 6
    assert {read(kind).family for kind in FAMILIES} == set(NAMES)


def test_published_configurations_of_gemma() -> None:
    second = read("gemma2", head_dim=256, query_pre_attn_scalar=224, sliding_window=4096, attn_logit_softcapping=50.0,
                  final_logit_softcapping=30.0, cache_implementation="hybrid")
    assert second.sliding == {0, 2, 4}
    assert (second.window, second.score_cap, second.logit_cap) == (4096, 50.0, 30.0)
    assert second.query_scale == pytest.approx(224 ** -0.5 / 50)
    assert (second.embedding_scale, second.tied, second.activation) == (8.0, True, "gelu_tanh")
    third = read("gemma3_text", head_dim=256, rope_theta=1e6, rope_local_base_freq=10000, sliding_window=512,
                 sliding_window_pattern=6, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert third.sliding == {0, 1, 2, 3, 4}
    assert (third.rope, third.local_rope) == (Rope(1e6, "linear", 8.0, original=128), Rope(10000.0))
    newer = read("gemma3_text", head_dim=256, layer_types=["sliding_attention", "full_attention"] * 3, rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})
    assert (newer.rope, newer.local_rope) == (third.rope, Rope(5000.0))
    assert newer.sliding == {0, 2, 4}
    assert newer.score_cap is None


def test_activations_of_gemma() -> None:
    assert read("gemma", hidden_act="gelu").activation == "gelu_tanh"
    assert read("gemma", hidden_act="gelu", hidden_activation=None).activation == "gelu_tanh"
    assert read("gemma", hidden_act="silu").activation == "silu"
    assert read("gemma2", hidden_activation="gelu").activation == "gelu"


def test_configurations_that_state_sizes_by_other_names() -> None:
    opt = of_huggingface({"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
                          "ffn_dim": 3072, "vocab_size": 50272, "max_position_embeddings": 2048,
                          "word_embed_proj_dim": 768, "activation_function": "relu", "do_layer_norm_before": True})
    assert (opt.hidden, opt.activation, opt.positions, opt.tied) == (3072, "relu", "learned", True)
    falcon = of_huggingface({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "alibi": False,
                             "num_attention_heads": 71, "multi_query": True, "parallel_attn": True, "bias": False,
                             "new_decoder_architecture": False, "vocab_size": 65024, "layer_norm_epsilon": 1e-5})
    assert (falcon.hidden, falcon.kv_heads, falcon.head_size, falcon.one_norm) == (18176, 1, 64, True)
    bloom = of_huggingface({"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16,
                            "vocab_size": 250880, "layer_norm_epsilon": 1e-5, "seq_length": 2048})
    assert (bloom.width, bloom.heads, bloom.hidden, bloom.embedding_norm) == (1024, 16, 4096, True)
    qwen = of_huggingface({"model_type": "qwen2_moe", **SIZES, "moe_intermediate_size": 40, "num_experts": 4,
                           "shared_expert_intermediate_size": 24, "num_experts_per_tok": 2})
    assert (qwen.hidden, qwen.experts) == (184, Experts(4, 2, False, 24))
    with pytest.raises(FormatError, match="'intermediate_size'"):
        of_huggingface({"model_type": "llama", **{k: v for k, v in SIZES.items() if k != "intermediate_size"}})


def test_windows_and_layers_without_positions() -> None:
    assert read("mistral", sliding_window=32).sliding == frozenset(range(6))
    assert read("mistral", sliding_window=None).window is None
    assert read("qwen2", sliding_window=32, use_sliding_window=False).window is None
    assert read("qwen2", sliding_window=32, use_sliding_window=True, max_window_layers=4).sliding == {4, 5}
    assert read("smollm3").unturned == {3}
    assert read("smollm3", no_rope_layers=[1, 0, 1, 0, 1, 1]).unturned == {1, 3}
    assert read("cohere2").unturned == {3}
    assert read("gpt_neo").sliding == {1, 3, 5}


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "layer_types": ("mistral", {"sliding_window": 8, "layer_types": ["chunked_attention"] * 6}),
    "layer_types of config": ("olmo2", {"layer_types": ["sliding_attention"] * 6}),
    "clip_qkv": ("olmo", {"clip_qkv": 8.0}), "use_qk_norm": ("cohere", {"use_qk_norm": True}),
    "qk_layernorm": ("phi", {"qk_layernorm": True}), "alibi": ("falcon", {"alibi": True}),
    "parallel_attn": ("falcon", {"new_decoder_architecture": True, "parallel_attn": False}),
    "do_layer_norm_before": ("opt", {"do_layer_norm_before": False}),
    "word_embed_proj_dim": ("opt", {"word_embed_proj_dim": 32}),
    "apply_residual_connection": ("bloom", {"apply_residual_connection_post_layernorm": True}),
    "use_bidirectional_attention": ("gemma3_text", {"use_bidirectional_attention": True}),
    "attn_logit_softcapping": ("llama", {"attn_logit_softcapping": 50.0}),
    "mlp_only_layers": ("qwen3_moe", {"mlp_only_layers": [1]}),
    "embedding_multiplier": ("llama", {"embedding_multiplier": 12.0}),
    "clip_qkv of attn_config": ("mpt", {"attn_config": {"alibi": True, "clip_qkv": 6}}),
    "logit_scale of config": ("mpt", {"logit_scale": "inv_sqrt_d_model"}), "n_head": ("codegen", {"n_head": 2}),
    "no_rope_layers": ("smollm3", {"no_rope_layers": [2] * 6}),
    "activation": ("gemma2", {"hidden_activation": "xielu"}),
    "quantization_config": ("phi3", {"quantization_config": {"quant_method": "awq"}}),
    "model_type 'mamba'": ("mamba", {}),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_is_not_built_is_refused_by_its_field(field: str) -> None:
    kind, more = REFUSED[field]
    with pytest.raises(UnsupportedError, match=field):
        read(kind, **more)


@pytest.mark.parametrize(("kind", "more", "message"), [
    ("phi3", {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0] * 8}}, "short_factor"),
    ("mixtral", {"num_experts_per_tok": 9, "num_local_experts": 8}, "experts chosen"),
    ("gptj", {"rotary_dim": None}, "rotary_dim"), ("gptj", {"rotary_dim": 18}, "even part"),
    ("gpt_neo", {"attention_layers": ["global"]}, "attention_layers"),
    ("mistral", {"sliding_window": "all"}, "sliding"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre"),
    ("gemma2", {"layer_types": ["full_attention"]}, "layer_types"),
])
def test_numbers_that_are_wrong_are_refused(kind: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(kind, **more)


def test_documents_of_any_kind_give_a_configuration_or_an_error_of_ours() -> None:
    random = np.random.default_rng(0)
    odd: list[Any] = [None, 0, -1, 1.5, "x", [], {}, [1], True, 1e400, "full_attention", {"rope_type": 3}]
    for kind in FAMILIES:
        for _ in range(60):
            document = {"model_type": kind, "ffn_dim": 96, **SIZES, **GPT}
            extra = ["rope_scaling", "rope_parameters", "layer_types", "sliding_window", "no_rope_layers", "head_dim",
                     "partial_rotary_factor", "num_experts", "num_local_experts", "logit_scale", "hidden_act"]
            for name in random.choice([*document, *extra][1:], 2):
                document[str(name)] = odd[random.integers(len(odd))]
            with suppress(AneError):
                assert of_huggingface(document).layers > 0


def test_parts_of_heads_are_turned_as_pairs_of_halves() -> None:
    """Queries and keys put in our order and turned by our tables have the products they have in the checkpoint's."""
    random = np.random.default_rng(1)
    for rope in (Rope(turned=6), Rope(turned=8, neighbours=True), Rope(neighbours=True), Rope()):
        size, half = 12, 6
        query, key = random.standard_normal((2, size))
        places = order(rope, size)
        places = np.arange(size) if places is None else places
        for apart in (0, 3):
            found = []
            for vector, position in ((query, 5 + apart), (key, 5)):
                cosines, sines = (each[0].astype(np.float64) for each in table(rope, size, 64, np.array([position])))
                ours = vector[places]
                found.append(ours * cosines + np.concatenate([ours[half:], ours[:half]]) * sines)
            assert found[0] @ found[1] == pytest.approx(turned(rope, query, 5 + apart) @ turned(rope, key, 5), abs=0.02)


def turned(rope: Rope, vector: np.ndarray, position: int) -> np.ndarray:
    """A vector in a checkpoint's order, its pairs turned one after the other."""
    size = rope.turned or len(vector)
    out = vector.copy()
    for pair in range(size // 2):
        first, second = (2 * pair, 2 * pair + 1) if rope.neighbours else (pair, pair + size // 2)
        angle = position * rope.base ** (-2 * pair / size)
        out[first] = vector[first] * np.cos(angle) - vector[second] * np.sin(angle)
        out[second] = vector[second] * np.cos(angle) + vector[first] * np.sin(angle)
    return out


def test_fused_weights_are_divided() -> None:
    config = read("gpt_neox", rotary_pct=1.0)
    heads = np.arange(4 * 3 * 16.0).reshape(4, 3, 16)
    names = FamilyNames({}, {}, {"fused": ("query", "key", "value")}, grouped=True)
    found = Renamed(config, names, {"layers.0.fused.bias": heads.reshape(-1)})
    np.testing.assert_array_equal(found["layers.0.key.bias"], heads[:, 1].reshape(-1))
    stacked = Renamed(config, FamilyNames({}, {}, names.fused), {"layers.0.fused.bias": heads.reshape(-1)})
    np.testing.assert_array_equal(stacked["layers.0.value.bias"], heads.reshape(-1)[128:])
    with pytest.raises(FormatError, match=r"fused\.bias.*192 rows"):
        Renamed(config, names, {"layers.0.fused.bias": np.zeros(190)})["layers.0.query.bias"]
    for wrong in (np.float32(1), np.zeros((3, 5, 7))):
        with pytest.raises(FormatError):
            Renamed(config, names, {"layers.0.fused.weight": np.asarray(wrong)})["layers.0.query.weight"]
    with pytest.raises(UnsupportedError, match="no layer of the gpt_neox family"):
        Renamed(config, names, {"layers.0.other.bias": np.zeros(190)})


@pytest.mark.parametrize("placement", CacheWriter)
def test_masks_with_windows_and_slopes(placement: CacheWriter) -> None:
    step, held = ModelStep("prefill", 4, 8, 8, placement=placement), 3
    first = held if placement is CacheWriter.ENGINE else 8
    found = mask(step, held, 3)[0, 0]
    for row in range(4):
        seen = {column if column < held else column - first + held for column in np.flatnonzero(found[row] == 0)}
        assert seen == {position for position in range(held + row + 1) if position > held + row - 3}
    falling = mask(step, held, None, alibi_slopes(4))[0]
    assert falling.shape[0] == 4
    np.testing.assert_allclose(falling[1, 2, [0, first + 2]], [-5 / 16, 0])
    assert (falling[:, 0, first + 1] == FAR).all()
    np.testing.assert_allclose(alibi_slopes(6), [2 ** -2, 2 ** -4, 2 ** -6, 2 ** -8, 2 ** -1, 2 ** -3])
