"""A Hugging Face directory of a small Llama with seeded weights, whose tokens are bytes, and Qwen's chat form."""

from __future__ import annotations

from pathlib import Path

from networks.language import RandomWeights
from support.checkpoints import llama_directory

from openane.models import Config

END = 257
CONFIG = Config("llama", 258, 64, 1, 4, 4, 16, 96, 128, 1e-5, stops=(END,))


def write_directory(folder: Path) -> Path:
    """config.json, model.safetensors and tokenizer.json. Needs safetensors and tokenizers."""
    folder.mkdir(parents=True)
    llama_directory(folder, CONFIG, RandomWeights(CONFIG), extra={"eos_token_id": END, "bos_token_id": None})
    _tokenizer(folder / "tokenizer.json")
    return folder


def _tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    made.save(str(path))
