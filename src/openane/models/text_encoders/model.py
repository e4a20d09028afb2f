"""An encoder of text on a device: states, vectors, classes of texts and of words, answers, scores of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import compile_functions
from openane.devices import Device
from openane.errors import ContextFull, GenerationError
from openane.graph import Graph
from openane.models.layers import FAR
from openane.models.loaded import LoadedModel
from openane.models.text import whole_numbers
from openane.models.text_encoders.config import EncoderConfig, Task
from openane.models.text_encoders.distances import buckets
from openane.models.text_encoders.graph import build
from openane.models.text_encoders.pooling import Pooling
from openane.models.text_encoders.weights import EncoderWeights
from openane.models.tokenizer import EncodedText, Tokenizer

HOST = ("rows of the tables of words, positions and types, added in float32",
        "masks: which rows hold tokens, and biases of distances", "one vector of the states of a text (embed)")
"""What an encoder leaves to the host; everything else runs on the engine."""
DEFAULT_LENGTHS = (128,)
MOST_ANSWER = 30
"""Tokens of the longest answer that is looked for."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A token of a text, `begin` to `end` of its characters, and its likeliest label."""

    text: str
    begin: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of a text, `begin` to `end` of its characters; `score` is the sum of those of its ends."""

    text: str
    begin: int
    end: int
    score: float


class Tables:
    """The rows the host looks up."""

    def __init__(self, weights: EncoderWeights) -> None:
        config = weights.config
        self._config = config
        self._words = weights.table(weights.whole("words"), (config.vocabulary, config.rows))
        self._positions = self._types = self._distances = None
        if config.first is not None:
            self._positions = weights.table(weights.whole("positions"), (config.context + config.first, config.rows))
        if config.types:
            self._types = weights.table(weights.whole("types"), (config.types, config.rows))
        if config.buckets:
            self._distances = weights.table(weights.whole("distances"), (config.buckets, config.heads))

    def inputs(self, tokens: Sequence[int], types: Sequence[int], length: int) -> dict[str, np.ndarray]:
        """What a function of `length` tokens takes, but for what its task does."""
        config, count = self._config, len(tokens)
        rows = np.zeros((1, length, config.rows), np.float16)
        found = self._words[list(tokens)]
        if self._positions is not None and config.first is not None:
            found = found + self._positions[config.first:config.first + count]
        if self._types is not None:
            found = found + self._types[list(types)]
        rows[0, :count] = found
        mask = np.where(np.arange(length) < count, 0, FAR).astype(np.float32).reshape(1, 1, 1, length)
        apart = np.arange(length)[None, :] - np.arange(length)[:, None]
        inputs = {"embeddings": rows, "mask": mask.astype(np.float16)}
        if self._distances is not None:
            biases = np.moveaxis(self._distances[buckets(apart)], -1, 0)[None]
            inputs["mask"] = np.maximum(mask + biases, FAR).astype(np.float16)
        window = next((window for window in config.windows if window is not None), None)
        if window is not None:
            inputs["near"] = np.where(np.abs(apart) <= window, mask, FAR).astype(np.float16)
        if config.pooled_by_mean and config.task is Task.CLASSIFY:
            inputs["shares"] = np.where(np.arange(length) < count, 1 / count, 0).astype(np.float16).reshape(1, 1, -1)
        return inputs


class TextEncoderModel(LoadedModel):
    """One encoder on one device."""

    def __init__(self, weights: EncoderWeights, device: str | Device | None = None,
                 lengths: Sequence[int] = DEFAULT_LENGTHS, target: str = DEFAULT_TARGET,
                 cache: bool | str | Path = False, tokenizer: Tokenizer | None = None,
                 pooling: Pooling | None = None) -> None:
        """Compiles a function for each of `lengths` tokens, strict, and loads them. GenerationError for lengths that
        are none, FormatError for weights that do not fit, errors of compilation and of the device otherwise."""
        self.config: EncoderConfig = weights.config
        self.pooling = pooling or Pooling()
        self.lengths = chosen_lengths(self.config, lengths)
        self._tables = Tables(weights)
        super().__init__(compile_functions(graphs(weights, self.lengths), target, allow_host=False, cache=cache),
                         device, tokenizer, HOST)

    def run(self, text: str | Sequence[int], other: str | None = None,
            types: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """What the functions give for a text, a pair of texts, or tokens with the segment of each, float32: `states`
        [tokens, width] and maybe `pooled` [width], or `logits` [labels], of each token [tokens, labels]. ContextFull
        when it is longer than the longest function, GenerationError for unknown tokens."""
        if isinstance(text, str):
            found = self._encoded(text, other)
            return self._outputs(found.tokens, found.types)
        tokens = whole_numbers(text)
        return self._outputs(tokens, [0] * len(tokens) if types is None else whole_numbers(types, "segments"))

    def embed(self, text: str | Sequence[int]) -> np.ndarray:
        """One vector of a text, as the directory says (the mean of its states where it says nothing), float32."""
        self._require(Task.STATES)
        return self.pooling.of(self.run(text)["states"])

    def classify(self, text: str | Sequence[int], other: str | None = None) -> dict[str, float]:
        """How likely each label is for a text or a pair, likeliest first."""
        self._require(Task.CLASSIFY)
        shares = _shares(self.run(text, other)["logits"])
        return {self.config.labels[at]: float(shares[at]) for at in np.argsort(-shares, kind="stable")}

    def score(self, text: str, other: str) -> float:
        """How well two texts go together, by a checkpoint that gives one number: the number itself."""
        self._require(Task.CLASSIFY)
        if len(self.config.labels) != 1:
            raise GenerationError(f"a score is one number, and the model gives {len(self.config.labels)}; classify() "
                                  "says how likely each is")
        return float(self.run(text, other)["logits"][0])

    def rank(self, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        """The texts by how well they go with a query: each one's number and score, best first."""
        scores = [self.score(query, text) for text in texts]
        return sorted(enumerate(scores), key=lambda each: -each[1])

    def tag(self, text: str) -> list[Tagged]:
        """The likeliest label of each token that stands for characters of the text."""
        self._require(Task.TAG)
        found = self._encoded(text, None)
        shares = _shares(self._outputs(found.tokens, found.types)["logits"])
        return [Tagged(text[begin:end], begin, end, self.config.labels[int(row.argmax())], float(row.max()))
                for row, (begin, end), part in zip(shares, found.places, found.parts, strict=True) if part is not None]

    def answer(self, question: str, text: str) -> Answer:
        """The part of a text that answers a question best."""
        self._require(Task.ANSWER)
        found = self._encoded(question, text)
        logits = self._outputs(found.tokens, found.types)["logits"]
        inside = np.array([part == 1 for part in found.parts])
        if not inside.any():
            raise GenerationError("there is no text to answer from")
        sums = logits[:, None, 0] + logits[None, :, 1]
        distances = np.arange(len(inside))[None, :] - np.arange(len(inside))[:, None]
        possible = inside[:, None] & inside[None, :] & (distances >= 0) & (distances < MOST_ANSWER)
        first, last = np.unravel_index(np.where(possible, sums, -np.inf).argmax(), sums.shape)
        begin, end = found.places[int(first)][0], found.places[int(last)][1]
        return Answer(text[begin:end], begin, end, float(sums[first, last]))

    def _outputs(self, tokens: Sequence[int], types: Sequence[int]) -> dict[str, np.ndarray]:
        self._check(tokens, types)
        count = len(tokens)
        length = min(length for length in self.lengths if length >= count)
        found = self._run(self._tables.inputs(tokens, types, length), f"encode_{length}")
        each = "states" if self.config.task is Task.STATES else None if self.config.task is Task.CLASSIFY else "logits"
        return {name: np.asarray(value[0, :count] if name == each else value.reshape(-1), np.float32)
                for name, value in found.items()}

    def _encoded(self, text: str, other: str | None) -> EncodedText:
        if self.tokenizer is None:
            raise GenerationError("the model has no tokenizer; give it tokens instead of a text")
        return self.tokenizer.encode_pair(text, other)

    def _require(self, task: Task) -> None:
        if self.config.task is not task:
            calls = {Task.STATES: "embed", Task.CLASSIFY: "classify, score and rank", Task.TAG: "tag",
                     Task.ANSWER: "answer"}
            raise GenerationError(f"the checkpoint is for {calls[self.config.task]}, not for {calls[task]}")

    def _check(self, tokens: Sequence[int], types: Sequence[int]) -> None:
        if not tokens or len(types) != len(tokens):
            raise GenerationError(f"{len(tokens)} tokens and {len(types)} segments are no text")
        known = (("token", tokens, self.config.vocabulary), ("segment", types, self.config.types or 2))
        for name, numbers, limit in known:
            unknown = next((number for number in numbers if not 0 <= number < limit), None)
            if unknown is not None:
                raise GenerationError(f"{name} {unknown} is none of the {limit} the model knows")
        if len(tokens) > self.lengths[-1]:
            raise ContextFull(self.lengths[-1], len(tokens), "shorten the text, or compile a longer function (lengths)")


def chosen_lengths(config: EncoderConfig, lengths: Sequence[int]) -> tuple[int, ...]:
    """Lengths that functions are compiled for, ascending, none above the model's own. GenerationError for others."""
    wanted = tuple(sorted({min(length, config.context) for length in whole_numbers(lengths, "lengths")}))
    if not wanted or wanted[0] < 1:
        raise GenerationError(f"lengths must be whole numbers from 1, not {list(lengths)}")
    return wanted


def graphs(weights: EncoderWeights, lengths: Sequence[int]) -> list[Graph]:
    """A graph for each of the lengths."""
    return [build(weights, length) for length in lengths]


def _shares(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; of one number alone its logistic function."""
    if logits.shape[-1] == 1:
        return np.asarray(1 / (1 + np.exp(-logits)))
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
