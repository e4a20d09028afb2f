"""Models of sounds on a device, and text from their scores by CTC: the likeliest token of every moment, repeats and
blanks left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import compile_functions
from openane.devices import Device
from openane.errors import ContextFull, FormatError, GenerationError
from openane.graph import Graph
from openane.models.loaded import RunningModel

HOST = ("samples brought to mean 0 and variance 1, silence behind them", "text from scores (CTC)")
"""What a model of sounds leaves to the host."""


SILENT = frozenset({"<pad>", "<s>", "</s>", "<unk>"})
"""Tokens that are no text, where a directory does not say."""


@dataclass(frozen=True, slots=True)
class Letters:
    """What tokens of a CTC model stand for: their texts, the one for nothing (`blank`), the one between words, and
    those that are no text."""

    texts: Mapping[int, str]
    blank: int
    space: str = "|"
    silent: frozenset[str] = SILENT

    @staticmethod
    def of(vocabulary: Mapping[str, Any], settings: Mapping[str, Any], blank: int) -> Letters:
        """What vocab.json and tokenizer_config.json say. FormatError where the vocabulary is no tokens and numbers."""
        if any(type(number) is not int for number in vocabulary.values()):
            raise FormatError("vocab.json", expected="a number for each token", found="something else")
        texts = {number: text for text, number in vocabulary.items()}
        names = {_name(settings.get(key)) for key in ("pad_token", "bos_token", "eos_token", "unk_token")}
        return Letters(texts, blank, _name(settings.get("word_delimiter_token")) or "|",
                       frozenset(names - {""}) or SILENT)

    def text(self, numbers: Sequence[int]) -> str:
        """The text of the likeliest tokens of one moment after another. What is no text does not count as a moment, as
        in the transformers library."""
        heard = [number for number in numbers if number == self.blank or self.texts.get(number) not in self.silent]
        kept = [number for at, number in enumerate(heard) if (at == 0 or number != heard[at - 1])
                and number != self.blank]
        found = [self.texts.get(number, "") for number in kept]
        return "".join(" " if text == self.space else text for text in found).strip()


class SoundModel(RunningModel):
    """One model of sounds on one device. A sound is float samples from -1 to 1 at `rate`."""

    def __init__(self, graphs: Sequence[Graph], steps: Sequence[tuple[int, int]], rate: int, normalised: bool,
                 letters: Letters | None, device: str | Device | None = None, target: str = DEFAULT_TARGET,
                 cache: bool | str | Path = False) -> None:
        """Compiles the graphs, each for sounds of as many samples as its input has; `steps` are sizes and strides of
        the convolutions that make moments of samples."""
        self.rate, self._normalised, self._letters, self._steps = rate, normalised, letters, tuple(steps)
        self._functions = {int(graph.inputs[0].shape[1]): graph.name for graph in graphs}
        super().__init__(compile_functions(graphs, target, cache=cache), device, None, HOST)

    @property
    def longest(self) -> int:
        """Samples of the longest sound."""
        return max(self._functions)

    def run(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        """What the model gives for a sound, float32 [moments, ...], silence behind it left out. ContextFull when it is
        too long, GenerationError when it is too short to have a moment."""
        given = np.asarray(samples, np.float32).reshape(-1)
        if len(given) > self.longest:
            raise ContextFull(self.longest, len(given), "cut the sound, or compile for a longer one (lengths, samples)")
        moments = self._moments(len(given))
        if moments < 1:
            raise GenerationError(f"{len(given)} samples are too short a sound")
        if self._normalised:
            given = (given - given.mean()) / np.sqrt(given.var() + 1e-7)
        length = min(length for length in self._functions if length >= len(given))
        row = np.zeros((1, length), np.float32)
        row[0, :len(given)] = given
        found = self._run({"input_values": row}, self._functions[length])
        return {name: np.asarray(value[0, :moments], np.float32) for name, value in found.items()}

    def transcribe(self, samples: np.ndarray) -> Iterator[str]:
        """The text of a sound of any length, window by window of the longest it was compiled for. GenerationError where
        the checkpoint scores no tokens, or has no vocabulary."""
        given = np.asarray(samples, np.float32).reshape(-1)
        for begin in range(0, len(given), self.longest):
            window = given[begin:begin + self.longest]
            if begin == 0 or self._moments(len(window)) > 0:  # a rest that is no moment long is nothing to write down
                yield self._text(window)

    def _text(self, samples: np.ndarray) -> str:
        found = self.run(samples)
        if "logits" not in found or self._letters is None:
            raise GenerationError("the checkpoint writes no text: it needs a layer that scores tokens (CTC) and a "
                                  "vocab.json")
        return self._letters.text(found["logits"].argmax(-1).tolist())

    def _moments(self, count: int) -> int:
        for size, stride in self._steps:
            count = (count - size) // stride + 1
        return count


def _name(token: object) -> str:
    """A special token as a text; newer files have it in an object."""
    found = token.get("content") if isinstance(token, Mapping) else token
    return found if isinstance(found, str) else ""
