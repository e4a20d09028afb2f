"""Sentences to embeddings: token lookup on the host, everything after it as one program for the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from network import build_graph
from tokenizers import Tokenizer
from weights import load_weights

import openane as ane
from openane.devices import Executable

LONGEST = 128
"""Tokens the model was trained on; longer sentences are cut."""


class SentenceEncoder:
    """all-MiniLM-L6-v2 compiled for sentences of up to `tokens` tokens; `model` is what was compiled."""

    def __init__(self, folder: Path, tokens: int = 64, target: str = "h13") -> None:
        """`folder` holds model.safetensors and tokenizer.json. ValueError when `tokens` is not in 3..128."""
        if not 3 <= tokens <= LONGEST:
            raise ValueError(f"tokens must be in 3..{LONGEST}, not {tokens}")
        weights = load_weights(folder)
        self.tokens = tokens
        self.words = weights["embeddings.words"].astype(np.float16)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(tokens)
        self.tokenizer.enable_padding(length=tokens)
        self.model = ane.compile(build_graph(weights, tokens), target=target)

    def look_up(self, sentence: str) -> dict[str, np.ndarray]:
        """What the host does: the sentence's tokens, their rows of the table, and which are no padding."""
        found = self.tokenizer.encode(sentence)
        mask = np.array(found.attention_mask, np.float16)
        return {"words": self.words[found.ids][None], "mask": mask[None, :, None]}

    @contextmanager
    def loaded(self, device: str | None = None) -> Iterator[Embed]:
        """The program on a device, ready for any number of sentences."""
        with ane.open_device(device) as opened, opened.load(self.model) as executable:
            yield Embed(self, executable)

    def encode(self, sentences: Sequence[str], device: str | None = None) -> np.ndarray:
        """Embeddings [sentences, 384] float32, each of length 1."""
        with self.loaded(device) as embed:
            return np.stack([embed(sentence) for sentence in sentences])


class Embed:
    """One sentence to its embedding [384]."""

    def __init__(self, encoder: SentenceEncoder, executable: Executable) -> None:
        self.encoder, self.executable = encoder, executable

    def __call__(self, sentence: str) -> np.ndarray:
        outputs = self.executable.run(self.encoder.look_up(sentence))
        return outputs["embedding"].reshape(-1).astype(np.float32)
