"""A sequence-to-sequence model on a device: it reads a source once, then writes token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import compile_functions
from openane.devices import Device
from openane.errors import ContextFull, GenerationError
from openane.models.distances import buckets
from openane.models.layers import FAR
from openane.models.loaded import RunningModel
from openane.models.sequence.config import SequenceConfig
from openane.models.sequence.graph import DECODE, ENCODE, decoder, encoder
from openane.models.sequence.parameters import SequenceParameters
from openane.models.tokenizer import Tokenizer
from openane.models.tokens import require_known, whole_numbers

HOST = ("rows of the embedding table looked up by token, positions added in float32", "masks, and biases of positions",
        "keys and values of the source handed to the decoder once, those of each token written by slice",
        "choosing the next token from the scores")
"""What such a model leaves to the host; everything else runs on the engine."""
DEFAULT_SOURCE = 128
DEFAULT_CONTEXT = 128


@dataclass(frozen=True, slots=True)
class SequenceSettings:
    """How a model is compiled: rows of the longest `source` (None: 128, of a sound all), tokens of the longest answer
    (`context`, None: 128), for what, and the compile `cache` it is taken from and kept in."""

    source: int | None = None
    context: int | None = None
    target: str = DEFAULT_TARGET
    cache: bool | str | Path = False

    def extents(self, config: SequenceConfig) -> tuple[int, int]:
        """Rows of the longest source and tokens of the longest answer of a model."""
        longest = config.source_positions if config.mels else DEFAULT_SOURCE
        return (min(self.source or longest, config.source_positions),
                min(self.context or DEFAULT_CONTEXT, config.positions))


class SequenceModel(RunningModel):
    """One model on one device, with one source and one answer. Close it, or use it in a `with` statement."""

    def __init__(self, config: SequenceConfig, tensors: Mapping[str, np.ndarray], device: str | Device | None = None,
                 settings: SequenceSettings | None = None, tokenizer: Tokenizer | None = None) -> None:
        """Compiles both functions, strict, and loads them. FormatError for weights that do not fit, errors of
        compilation and of the device otherwise."""
        self.config = config
        chosen = settings or SequenceSettings()
        self.source, self.context = chosen.extents(config)
        parameters = SequenceParameters(config, tensors)
        self._rows = parameters.embedding().astype(np.float32) * np.float32(config.scale)
        self._places = {side: parameters.places(side) for side in ("encoder", "decoder")}
        self._biases = {side: parameters.biases(side) for side in self._places} if config.relative else {}
        self._tokens: list[int] = []
        self._masks: np.ndarray | None = None
        graphs = [encoder(parameters, self.source), decoder(parameters, self.source, self.context)]
        super().__init__(compile_functions(graphs, chosen.target, allow_host=False, cache=chosen.cache), device,
                         tokenizer, HOST)

    @property
    def tokens(self) -> tuple[int, ...]:
        """What the decoder was given since it read its source."""
        return tuple(self._tokens)

    def read(self, source: Sequence[int] | np.ndarray) -> np.ndarray:
        """Reads a text's tokens, or a sound's spectrogram [mels, 2 * rows], and forgets the answer before. The
        encoder's states, float32 [rows, width]. ContextFull for more rows than it was compiled for."""
        inputs, count = self._sound(np.asarray(source)) if self.config.mels else self._text(source)
        outputs = self._run(inputs, ENCODE)
        for name in ("keys", "values"):
            self._loaded.write(f"cross_{name}", outputs[f"source_{name}"])
        self._masks = np.where(np.arange(self.source) < count, 0, FAR).astype(np.float16).reshape(1, 1, 1, -1)
        self._tokens = []
        return np.asarray(outputs["states"][0, :count], np.float32)

    def step(self, token: int) -> np.ndarray:
        """Gives the decoder one more token. Scores of the next, float32 [vocabulary]. GenerationError before `read` or
        for an unknown token, ContextFull when the answer is full."""
        if self._masks is None:
            raise GenerationError("there is nothing to answer: read() a source first")
        require_known([token], self.config.vocabulary)
        held = len(self._tokens)
        if held >= self.context:
            raise ContextFull(self.context, held + 1, "compile it for longer answers (context)")
        row = self._rows[token]
        places = self._places["decoder"]
        row = row if places is None else row + places[held]
        outputs = self._run({"embeddings": row.astype(np.float16).reshape(1, 1, -1), "mask": self._seen(held),
                             "cross_mask": self._masks}, DECODE)
        self._loaded.write("keys", outputs["new_keys"], (slice(None), slice(None), slice(None), slice(held, held + 1)))
        self._loaded.write("values", outputs["new_values"], (slice(None), slice(None), slice(held, held + 1)))
        self._tokens.append(token)
        return np.asarray(outputs["logits"], np.float32).reshape(-1)

    def generate(self, source: Sequence[int] | np.ndarray, most: int | None = None, prefix: Sequence[int] = (),
                 never: Sequence[int] = (), never_first: Sequence[int] = ()) -> Iterator[int]:
        """The likeliest tokens, one after another, up to one that ends the answer, which is left out, or `most`. The
        answer begins with the configuration's start and `prefix`; tokens of `never` are not written, those of
        `never_first` not at once."""
        self.read(source)
        scores = np.zeros(0, np.float32)
        for token in (self.config.start, *prefix):
            scores = self.step(token)
        for count in range(self.context - len(self._tokens) + 1 if most is None else most):
            forbidden = [*never, *(never_first if not count else ())]
            if forbidden:
                scores[forbidden] = -np.inf
            best = int(scores.argmax())
            if best in self.config.stops:
                return
            yield best
            if len(self._tokens) >= self.context:
                return
            scores = self.step(best)

    def answer(self, text: str, most: int | None = None) -> str:
        """The likeliest answer to a text. GenerationError without a tokenizer."""
        words = self._words()
        return words.decode(list(self.generate(words.encode(text), most)))

    def _text(self, source: Sequence[int] | np.ndarray) -> tuple[dict[str, np.ndarray], int]:
        tokens = whole_numbers(source)
        require_known(tokens, self.config.vocabulary)
        count = len(tokens)
        if not count:
            raise GenerationError("there is no text to answer")
        if count > self.source:
            raise ContextFull(self.source, count, "compile it for longer sources (source)")
        rows = np.zeros((1, self.source, self.config.width), np.float16)
        places = self._places["encoder"]
        rows[0, :count] = self._rows[tokens] + (0 if places is None else places[:count])
        mask = np.where(np.arange(self.source) < count, 0, FAR).astype(np.float32)
        if self.config.relative:
            at = np.arange(self.source)
            mask = mask + self._bias("encoder", at[None, :] - at[:, None])
        outer = (self.config.encoder.heads, self.source) if self.config.relative else (1, 1)
        return {"embeddings": rows, "mask": np.maximum(mask, FAR).astype(np.float16).reshape(
            1, *outer, self.source)}, count

    def _sound(self, features: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
        wanted = (self.config.mels, 2 * self.source)
        if features.shape != wanted:
            raise GenerationError(f"a sound is a spectrogram {list(wanted)}, not {list(features.shape)}")
        return {"features": features[None].astype(np.float16),
                "mask": np.zeros((1, 1, 1, self.source), np.float16)}, self.source

    def _seen(self, held: int) -> np.ndarray:
        """The mask of a step: so many positions of the cache, and the token itself, with the biases of positions."""
        mask = np.full(self.context + 1, FAR, np.float32)
        mask[:held], mask[-1] = 0, 0
        if not self.config.relative:
            return mask.astype(np.float16).reshape(1, 1, 1, -1)
        distances = np.append(np.arange(self.context), held)[None, :] - held
        return np.asarray(np.maximum(mask + self._bias("decoder", distances), FAR), np.float16)[None]

    def _bias(self, side: str, distances: np.ndarray) -> np.ndarray:
        """Biases of distances [rows, columns], float32 [heads, rows, columns]."""
        numbers = buckets(distances, self.config.buckets, self.config.distance, side == "encoder")
        return np.asarray(np.moveaxis(self._biases[side][numbers], -1, 0))
