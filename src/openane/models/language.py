"""A decoder ready to continue texts: tokens in, scores and tokens out, on any device.

The engine computes every layer and the scores of the vocabulary. The host does what `HOST` lists; how often and how
many bytes is in `usage`. The cache holds the tokens of the text so far (`tokens`); a text that begins like it only
computes what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.devices import Device
from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models import generation
from openane.models.adapters import Adapter, Slots
from openane.models.chat import Message, Template
from openane.models.config import Config, chosen
from openane.models.decoder import build, turning
from openane.models.generation import GeneratedToken, Options, Reading
from openane.models.layers import CheckpointParameters, Precision
from openane.models.naming import Weights
from openane.models.runner import Residence, Told, runner, silent
from openane.models.stepped import SteppedModel
from openane.models.steps import Buckets, CacheWriter
from openane.models.text import CachedText, Cancel
from openane.models.tokenizer import Tokenizer
from openane.models.tokens import whole_numbers

LEARNED = "learned positions added to them, in float32"
TURNS = "cosines and sines of rotary positions"
PLACED = "new keys and values written into the cache by slice"
HOST = (
    "rows of the embedding table looked up by token", LEARNED,
    "the mask: which positions of the cache hold tokens, and which new tokens come before which", TURNS, PLACED,
    "choosing the next token from the scores",
)
"""What steps leave to the host; `LanguageModel.host` says which of it one model's do."""
DEFAULT_CONTEXT = 1024
DEFAULT_PREFILL = 64


@dataclass(frozen=True, slots=True)
class LanguageSettings:
    """How a model is compiled: `buckets` (None: a context of up to 1024 tokens, 64 at a time), weights' precision,
    who places new keys and values, whether prefill scores every token (`scores`), room for adapters, how many
    functions are on the device at a time, what they are compiled for, and the compile `cache` they are taken from and
    kept in (True: the user's own; a folder; False: none).
    Choices may be given by their names. UnsupportedError for other ones."""

    buckets: Buckets | None = None
    precision: Precision = Precision.FP16
    placement: CacheWriter = CacheWriter.HOST
    scores: bool = False
    slots: Slots | None = None
    residence: Residence = Residence.AUTO
    target: str = DEFAULT_TARGET
    cache: bool | str | Path = False

    def __post_init__(self) -> None:
        for name, kind in (("precision", Precision), ("placement", CacheWriter), ("residence", Residence)):
            object.__setattr__(self, name, chosen(kind, getattr(self, name)))

    def lengths(self, config: Config) -> Buckets:
        """The buckets for a model. ContextFull when they are longer than it was made for."""
        if self.buckets is None:
            context = min(config.context, DEFAULT_CONTEXT)
            return Buckets((context,), (DEFAULT_PREFILL,) if context >= DEFAULT_PREFILL else ())
        if self.buckets.context > config.context:
            raise ContextFull(config.context, self.buckets.context, "compile it for fewer tokens")
        return self.buckets


class LanguageModel(SteppedModel):
    """One decoder on one device, with the cache of one text. While a stream is under way, or a step in another thread,
    whatever would change the cache raises GenerationError. Close it, or use it in a `with` statement."""

    def __init__(self, config: Config, weights: Weights, device: str | Device | None = None,
                 settings: LanguageSettings | None = None, tokenizer: Tokenizer | None = None,
                 template: Template | None = None, identity: str = "", told: Told = silent) -> None:
        """Compiles and loads; `weights` by the names of `naming`, `identity` different for different ones (empty: not
        known, they are read to find out); `told` hears what is done meanwhile. UnsupportedError
        for an encoder, FormatError for weights that do not fit, errors of compilation and of the device otherwise."""
        if not config.decoder:
            raise UnsupportedError(f"a {config.family} model", "encodes texts and cannot continue them",
                                   remedy="openane.models.load_encoder")
        self.config, self.template = config, template
        self.settings = settings or LanguageSettings()
        self.context = self.settings.lengths(config).context
        parameters = CheckpointParameters(config, weights, self.settings.precision)
        steps = self.settings.lengths(config).steps(self.settings.scores, self.settings.placement,
                                                    self.settings.slots)
        embeddings, positions = parameters.embedding(), parameters.positions()
        super().__init__(device, tokenizer, lambda opened: runner(
            opened, parameters, steps, self.settings.target, self.settings.residence, build, self.settings.cache,
            identity, told))
        names = [f"layers.{layer}.{norm}" for layer in range(config.layers) for norm in config.norm_names]
        self._gains = {name: gain for name in names if self.settings.slots and
                       (gain := parameters.gain(name)) is not None}
        self._text = CachedText(config, self.runner, embeddings, positions, self.context)
        self._busy = Lock()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The text in the cache."""
        return self._text.tokens

    @property
    def host(self) -> tuple[str, ...]:
        """What this model's steps leave to the host, of `HOST`."""
        absent = {LEARNED if self.config.positions != "learned" else TURNS, *([] if turning(self.config) else [TURNS])}
        if self.settings.placement is CacheWriter.ENGINE:
            absent.add(PLACED)
        return tuple(work for work in HOST if work not in absent)

    @property
    def stops(self) -> frozenset[int]:
        """Tokens that end a text: those of the configuration, and of the form of conversations."""
        named = () if self.template is None or self.tokenizer is None else \
            tuple(self.tokenizer.token(name) for name in self.template.stops)
        return frozenset((*self.config.stops, *(token for token in named if token is not None)))

    def reset(self) -> None:
        """Forgets the text."""
        self.rewind(0)

    def rewind(self, length: int) -> None:
        """Forgets what comes after the first `length` tokens. GenerationError when there are fewer."""
        with self._alone():
            self._text.rewind(length)

    def prefill(self, tokens: Sequence[int], cancel: Cancel | None = None) -> bool:
        """Appends tokens to the text without scoring what follows, as many at a time as functions take. `cancel` is
        asked between steps; True ends it there, and False is returned. ContextFull, GenerationError when a token is
        unknown."""
        with self._alone():
            return self._text.prefill(tokens, cancel)

    def decode(self, token: int) -> np.ndarray:
        """Appends one token and scores what follows it: float32 [vocabulary]. Errors as for `prefill`."""
        with self._alone():
            return self._text.decode(token)

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens and scores what follows each of them: float32 [tokens, vocabulary]. Errors as for
        `prefill`."""
        with self._alone():
            return self._text.score(tokens)

    def stream(self, tokens: Sequence[int], options: Options | None = None,
               cancel: Cancel | None = None) -> Iterator[GeneratedToken]:
        """The tokens that continue a text, as they are chosen; the last one says why it is (`finish`).

        `cancel` is asked between steps: True ends the text, as closing or forgetting the iterator does; the model is
        free then. What the cache holds of the text already is not computed again. Before anything is computed:
        GenerationError when another text is under way, the text is empty or a token unknown; ContextFull when it leaves
        no room.
        """
        whole = self._text.require(tokens, 0)
        if not whole:
            raise GenerationError("there is no text to continue")
        self._take()
        reading = Reading(self.tokenizer, self.stops, self.context)
        return generation.stream(reading, self._text, whole, options or Options(), cancel, self._busy.release)

    def generate(self, prompt: str | Sequence[int] | Sequence[Message], options: Options | None = None,
                 cancel: Cancel | None = None) -> Iterator[GeneratedToken]:
        """As `stream`, for a text, tokens or a conversation. GenerationError without the tokenizer or the form of
        conversations that takes."""
        return self.stream(self.prompt_tokens(prompt), options, cancel)

    def prompt_tokens(self, prompt: str | Sequence[int] | Sequence[Message]) -> list[int]:
        """The tokens of a text or a conversation; tokens are left alone."""
        if isinstance(prompt, str):
            return self._words().encode(prompt, most=self.context)
        items = list(prompt) if isinstance(prompt, Iterable) and not isinstance(prompt, bytes) else []
        messages = [item for item in items if isinstance(item, Mapping)]
        if len(messages) < len(items) or not items:
            return whole_numbers(items or prompt, "a prompt is a text, tokens or messages, all of one kind; tokens")
        if self.template is None:
            raise GenerationError("it is not known how this model talks: its directory has no chat template; give it a "
                                  "text to continue instead of messages")
        tokenizer = self._words()
        start = [] if tokenizer.start is None else [tokenizer.start]
        return [*start, *self.template.tokens(messages, tokenizer, self.context)]

    def use(self, adapter: Adapter | None) -> None:
        """Takes an adapter (None: none) from the next step on; nothing is compiled, the text is forgotten. FormatError
        when there is no room for it, GenerationError while a text is under way."""
        slots = self.settings.slots
        if slots is None:
            raise FormatError("an adapter", expected="a model compiled with slots for one", found="none")
        states = (adapter or Adapter({})).states(self.config, slots, self._gains)
        with self._alone():
            self._text.rewind(0)
            for name, values in states.items():
                self.runner.write(name, values)

    def _take(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise GenerationError("another text is under way on this model; read its iterator to the end, or close it "
                                  "first")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._take()
        try:
            yield
        finally:
            self._busy.release()
