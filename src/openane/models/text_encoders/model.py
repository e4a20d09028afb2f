"""An encoder of text on a device: states, vectors, classes of texts and of words, answers, scores of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import compile_functions
from openane.devices import Device
from openane.errors import GenerationError
from openane.models.loaded import RunningModel
from openane.models.shares import label_shares
from openane.models.text_encoders.config import EncoderTask
from openane.models.text_encoders.pooling import VectorPooling
from openane.models.text_encoders.source import EncoderSource
from openane.models.tokenizer import EncodedText, Tokenizer
from openane.models.tokens import chosen_lengths, require_text, whole_numbers

VECTOR = "one vector of the states of a text (embed)"
"""What every encoder leaves to the host."""
DEFAULT_LENGTHS = (128,)
CALLS = {EncoderTask.STATES: "embed", EncoderTask.CLASSIFY: "classify, score and rank", EncoderTask.TAG: "tag",
         EncoderTask.ANSWER: "answer"}
"""Which methods are for a task."""
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
class TextAnswer:
    """A part of a text, `begin` to `end` of its characters; `score` is the sum of those of its ends."""

    text: str
    begin: int
    end: int
    score: float


class TextEncoderModel(RunningModel):
    """One encoder on one device."""

    def __init__(self, source: EncoderSource, device: str | Device | None = None,
                 lengths: Sequence[int] = DEFAULT_LENGTHS, target: str = DEFAULT_TARGET,
                 cache: bool | str | Path = False, tokenizer: Tokenizer | None = None,
                 pooling: VectorPooling | None = None) -> None:
        """Compiles a function for each of `lengths` tokens and loads them. GenerationError for lengths that are none,
        FormatError for weights that do not fit, errors of compilation and of the device otherwise."""
        self.config = source.config
        self.pooling = pooling or VectorPooling()
        self.lengths = chosen_lengths(lengths, self.config.context)
        self._source = source
        super().__init__(compile_functions([source.graph(length) for length in self.lengths], target, cache=cache),
                         device, tokenizer, (*source.host, VECTOR))

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
        self._require(EncoderTask.STATES)
        return self.pooling.of(self.run(text)["states"])

    def classify(self, text: str | Sequence[int], other: str | None = None) -> dict[str, float]:
        """How likely each label is for a text or a pair, likeliest first."""
        self._require(EncoderTask.CLASSIFY)
        shares = label_shares(self.run(text, other)["logits"])
        return {self.config.labels[at]: float(shares[at]) for at in np.argsort(-shares, kind="stable")}

    def score(self, text: str, other: str) -> float:
        """How well two texts go together, by a checkpoint that gives one number: the number itself."""
        self._require(EncoderTask.CLASSIFY)
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
        self._require(EncoderTask.TAG)
        found = self._encoded(text, None)
        shares = label_shares(self._outputs(found.tokens, found.types)["logits"])
        return [Tagged(text[begin:end], begin, end, self.config.labels[int(row.argmax())], float(row.max()))
                for row, (begin, end), part in zip(shares, found.places, found.parts, strict=True) if part is not None]

    def answer(self, question: str, text: str) -> TextAnswer:
        """The part of a text that answers a question best."""
        self._require(EncoderTask.ANSWER)
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
        return TextAnswer(text[begin:end], begin, end, float(sums[first, last]))

    def _outputs(self, tokens: Sequence[int], types: Sequence[int]) -> dict[str, np.ndarray]:
        require_text(tokens, types, (self.config.vocabulary, self.config.types or 2), self.lengths[-1])
        count = len(tokens)
        length = min(length for length in self.lengths if length >= count)
        found = self._run(self._source.inputs(tokens, types, length), f"encode_{length}")
        each = {EncoderTask.STATES: "states", EncoderTask.CLASSIFY: None}.get(self.config.task, "logits")
        return {name: np.asarray(value[0, :count] if name == each else value.reshape(-1), np.float32)
                for name, value in found.items()}

    def _encoded(self, text: str, other: str | None) -> EncodedText:
        return self._words().encode_pair(text, other)

    def _require(self, task: EncoderTask) -> None:
        if self.config.task is not task:
            raise GenerationError(f"the checkpoint is for {CALLS[self.config.task]}, not for {CALLS[task]}")
