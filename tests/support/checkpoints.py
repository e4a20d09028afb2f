"""Checkpoints written for tests: Hugging Face directories, llama2.c files, tokenizers, adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from openane.models import Config

PARTS = {"query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj",
         "output": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
         "query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm",
         "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far")


def llama_directory(folder: Path, config: Config, weights: Mapping[str, np.ndarray], files: int = 1,
                    extra: Mapping[str, object] | None = None) -> None:
    """A directory as transformers writes it: float32 tensors in one file or several with an index."""
    from safetensors.numpy import save_file

    document = {"model_type": "qwen3" if config.normed_heads else "qwen2" if config.biases else "llama",
                "head_dim": config.head_size, "hidden_size": config.width,
                "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
                "num_hidden_layers": config.layers, "intermediate_size": config.hidden,
                "vocab_size": config.vocabulary, "max_position_embeddings": config.context,
                "rms_norm_eps": config.epsilon, "rope_theta": config.rope.base, "hidden_act": "silu",
                "tie_word_embeddings": config.tied, "eos_token_id": 2, "bos_token_id": 1} | dict(extra or {})
    (folder / "config.json").write_text(json.dumps(document))
    tensors = {_llama_name(name): np.ascontiguousarray(array) for name, array in weights.items()}
    if files == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    places = {name: f"model-{number % files}.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(places.values()):
        save_file({name: tensors[name] for name, place in places.items() if place == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def _llama_name(name: str) -> str:
    wholes = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight",
              "head.weight": "lm_head.weight"}
    if name in wholes:
        return wholes[name]
    _, number, part, kind = name.split(".")
    return f"model.layers.{number}.{PARTS[part]}.{kind}"


def gpt2_directory(folder: Path, config: Config, weights: Mapping[str, np.ndarray]) -> None:
    """GPT-2's: matrices inputs first, query, key and value side by side."""
    from safetensors.numpy import save_file

    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "n_embd": config.width, "n_head": config.heads, "n_layer": config.layers,
        "n_positions": config.context, "vocab_size": config.vocabulary, "n_inner": config.hidden,
        "layer_norm_epsilon": config.epsilon, "activation_function": "gelu_new"}))
    tensors = {"wte.weight": weights["embedding.weight"], "wpe.weight": weights["positions.weight"],
               "ln_f.weight": weights["norm.weight"], "ln_f.bias": weights["norm.bias"]}
    names = {"output": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj", "norm1": "ln_1", "norm2": "ln_2"}
    for layer in range(config.layers):
        for kind in ("weight", "bias"):
            tensors[f"h.{layer}.attn.c_attn.{kind}"] = np.concatenate(
                [weights[f"layers.{layer}.{part}.{kind}"] for part in ("query", "key", "value")]).T
            for ours, theirs in names.items():
                array = weights[f"layers.{layer}.{ours}.{kind}"]
                tensors[f"h.{layer}.{theirs}.{kind}"] = array.T if array.ndim == 2 else array
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.safetensors")


def bert_directory(folder: Path, config: Config, weights: Mapping[str, np.ndarray]) -> None:
    """BERT's, with the old names of normalisations and a prefix."""
    from safetensors.numpy import save_file

    (folder / "config.json").write_text(json.dumps({
        "model_type": "bert", "hidden_size": config.width, "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers, "intermediate_size": config.hidden, "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context, "type_vocab_size": config.types, "hidden_act": "gelu"}))
    whole = {"embedding.weight": "word_embeddings.weight", "positions.weight": "position_embeddings.weight",
             "types.weight": "token_type_embeddings.weight", "embedding.norm.weight": "LayerNorm.gamma",
             "embedding.norm.bias": "LayerNorm.beta"}
    pooler = {"pooler.weight": "bert.pooler.dense.weight", "pooler.bias": "bert.pooler.dense.bias"}
    names = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
             "output": "attention.output.dense", "norm1": "attention.output.LayerNorm", "up": "intermediate.dense",
             "down": "output.dense", "norm2": "output.LayerNorm"}
    tensors = {}
    for name, array in weights.items():
        if name in whole:
            tensors[f"bert.embeddings.{whole[name]}"] = array
        elif name in pooler:
            tensors[pooler[name]] = array
        else:
            _, number, part, kind = name.split(".")
            tensors[f"bert.encoder.layer.{number}.{names[part]}.{kind}"] = array
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.safetensors")


def word_tokenizer(path: Path, special: tuple[str, ...] = ()) -> None:
    """A tokenizer.json of words and, for everything else, an unknown token."""
    import tokenizers

    names = ["<unk>", "<s>", "</s>", *WORDS, *special]
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["<unk>", "<s>", "</s>", *special])
    made.save(str(path))


def llama2c_checkpoint(path: Path, config: Config, weights: Mapping[str, np.ndarray], version: int) -> None:
    """A `.bin` of llama2.c, rotary pairs as neighbours there."""
    numbers = [config.width, config.hidden, config.layers, config.heads, config.kv_heads,
               config.vocabulary if config.tied or version else -config.vocabulary, config.context]
    header = np.array(numbers, "<i4").tobytes()
    group = 32
    if version:
        tail = bytes([config.tied]) + (np.array([group], "<i4").tobytes() if version == 2 else b"")
        header = (np.array([0x616B3432, version], "<u4").tobytes() + header + tail).ljust(256, b"\0")

    def layers(part: str) -> list[np.ndarray]:
        found = [weights[f"layers.{layer}.{part}.weight"] for layer in range(config.layers)]
        return [_neighbours(array, config.head_size) for array in found] if part in ("query", "key") else found

    matrices = [matrix for part in ("query", "key", "value", "output") for matrix in layers(part)]
    feed = [matrix for part in ("gate", "down", "up") for matrix in layers(part)]
    head = [] if config.tied else [weights["head.weight"]]
    table, last = [weights["embedding.weight"]], [weights["norm.weight"]]
    first, second = layers("norm1"), layers("norm2")
    if not version:
        unused = [np.zeros((2, config.context, config.head_size // 2), np.float32)]
        plain = [*table, *first, *matrices, *second, *feed, *last, *unused, *head]
        path.write_bytes(header + b"".join(array.astype("<f4").tobytes() for array in plain))
        return
    norms = b"".join(array.astype("<f4").tobytes() for array in (*first, *second, *last))
    rest = [*table, *matrices, *feed, *head]
    encoded = [_grouped(array, group) if version == 2 else array.astype("<f4").tobytes() for array in rest]
    path.write_bytes(header + norms + b"".join(encoded))


def _neighbours(matrix: np.ndarray, size: int) -> np.ndarray:
    heads = matrix.reshape(-1, 2, size // 2, matrix.shape[1])
    return heads.swapaxes(1, 2).reshape(matrix.shape)


def _grouped(array: np.ndarray, group: int) -> bytes:
    rows = array.reshape(-1, group)
    scales = (np.abs(rows).max(axis=1) / 127).astype("<f4")
    return np.rint(rows / scales[:, None]).astype(np.int8).tobytes() + scales.tobytes()


def llama2c_tokenizer(path: Path) -> list[str]:
    """A tokenizer.bin whose pieces merge by score; the pieces."""
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)),
              *"abcdefgh ", " a", "ab", " ab", "abc", " abc", "cd", "de"]
    scores = [0.0] * (3 + 256) + [-float(place) for place in range(len(pieces) - 3 - 256)]
    scores[pieces.index(" ab")] = -0.5  # preferred to what comes before it
    encoded = [(score, piece.encode()) for score, piece in zip(scores, pieces, strict=True)]
    longest = max(len(piece) for _, piece in encoded)
    path.write_bytes(np.array([longest], "<i4").tobytes() + b"".join(
        np.array([score], "<f4").tobytes() + np.array([len(piece)], "<i4").tobytes() + piece
        for score, piece in encoded))
    return pieces


def adapter_directory(folder: Path, config: Config, parts: tuple[str, ...], rank: int, alpha: float,
                      seed: int) -> dict[str, np.ndarray]:
    """A LoRA adapter of PEFT; what it adds to every weight it changes, by our names."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(seed)
    query, key = config.heads * config.head_size, config.kv_heads * config.head_size
    sizes = {"query": (query, config.width), "key": (key, config.width), "value": (key, config.width),
             "output": (config.width, query), "gate": (config.hidden, config.width),
             "up": (config.hidden, config.width), "down": (config.width, config.hidden)}
    tensors, added = {}, {}
    for layer in range(config.layers):
        for part in parts:
            outputs, inputs = sizes[part]
            down = rng.standard_normal((rank, inputs), np.float32) / np.float32(np.sqrt(inputs))
            up = rng.standard_normal((outputs, rank), np.float32) * np.float32(0.5)
            name = f"base_model.model.model.layers.{layer}.{PARTS[part]}"
            tensors |= {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
            added[f"layers.{layer}.{part}.weight"] = up @ down * np.float32(alpha / rank)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": alpha, "peft_type": "LORA"}))
    return added
