"""A decoder ready to continue texts: tokens in, scores and tokens out, on any device.

The engine computes every layer and the scores of the vocabulary. The host does what `HOST` lists; how often and how
many bytes is in `usage`. The cache holds the tokens of the text so far (`tokens`); a text that begins like it only
computes what is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np

from openane.devices import Device, open_device
from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models import generation
from openane.models.adapters import Adapter, Slots
from openane.models.chat import Message, Template
from openane.models.config import Config
from openane.models.decoder import PLACES, build
from openane.models.generation import Cancel, Options, Token
from openane.models.layers import FAR, Parameters, Precision
from openane.models.naming import Weights
from openane.models.rope import table
from openane.models.runner import Residence, Runner, Usage, runner
from openane.models.steps import Buckets, Placement, Step, choose
from openane.models.tokenizer import Tokenizer

HOST = (
    "rows of the embedding table looked up by token (learned positions added in float32)",
    "the mask: which positions of the cache hold tokens, and which new tokens come before which",
    "cosines and sines of rotary positions",
    "new keys and values written into the cache by slice, unless placement is 'engine'",
    "choosing the next token from the scores",
)
"""What a step leaves to the host."""
DEFAULT_CONTEXT = 1024
DEFAULT_PREFILL = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is compiled: `buckets` (None: a context of up to 1024 tokens, 64 at a time), weights' precision,
    who places new keys and values, whether prefill scores every token (`scores`), room for adapters, how many
    functions are on the device at a time, what they are compiled for."""

    buckets: Buckets | None = None
    precision: Precision = Precision.FP16
    placement: Placement = Placement.HOST
    scores: bool = False
    slots: Slots | None = None
    residence: Residence = Residence.AUTO
    target: str = "h13"

    def lengths(self, config: Config) -> Buckets:
        """The buckets for a model. ContextFull when they are longer than it was made for."""
        if self.buckets is None:
            context = min(config.context, DEFAULT_CONTEXT)
            return Buckets((context,), (DEFAULT_PREFILL,) if context >= DEFAULT_PREFILL else ())
        if self.buckets.context > config.context:
            raise ContextFull(config.context, self.buckets.context, "compile it for fewer tokens")
        return self.buckets


class LanguageModel:
    """One decoder on one device. Methods exclude nobody: one thread at a time, or `stream`, which refuses a second
    text while one is under way. Close it, or use it in a `with` statement."""

    def __init__(self, config: Config, weights: Weights, device: str | Device | None = None,
                 settings: Settings | None = None, tokenizer: Tokenizer | None = None,
                 template: Template | None = None) -> None:
        """Compiles and loads; `weights` by the names of `naming`. UnsupportedError for an encoder, FormatError for
        weights that do not fit, errors of compilation and of the device otherwise."""
        if not config.decoder:
            raise UnsupportedError(f"a {config.family} model", "encodes texts and cannot continue them",
                                   remedy="openane.models.load_encoder")
        self.config, self.tokenizer, self.template = config, tokenizer, template
        self.settings = settings or Settings()
        self.context = self.settings.lengths(config).context
        parameters = Parameters(config, weights, self.settings.precision)
        steps = self.settings.lengths(config).steps(self.settings.scores, self.settings.placement,
                                                    self.settings.slots)
        self._closes = device is None or isinstance(device, str)
        self._own = open_device(device) if device is None or isinstance(device, str) else device
        try:
            self._runner = runner(self._own, parameters, steps, self.settings.target, self.settings.residence, build)
        except BaseException:
            if self._closes:
                self._own.close()
            raise
        self._table = parameters.embedding()
        self._positions = parameters.positions()
        names = [f"layers.{layer}.{norm}" for layer in range(config.layers) for norm in ("norm1", "norm2")]
        self._gains = {name: gain for name in names if self.settings.slots and
                       (gain := parameters.gain(name)) is not None}
        del parameters
        self._tokens: list[int] = []
        self._busy = Lock()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The text in the cache."""
        return tuple(self._tokens)

    @property
    def usage(self) -> Usage:
        """Counters since the model was loaded."""
        return self._runner.usage

    @property
    def runner(self) -> Runner:
        """The compiled functions on the device."""
        return self._runner

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._own

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
        if not 0 <= length <= len(self._tokens):
            raise GenerationError(f"the text has {len(self._tokens)} tokens; {length} of them cannot be kept")
        del self._tokens[length:]

    def prefill(self, tokens: Sequence[int], cancel: Cancel | None = None) -> None:
        """Appends tokens to the text without scoring what follows, as many at a time as functions take. ContextFull,
        GenerationError when a token is unknown. `cancel` is looked at between steps."""
        self._append(tokens, cancel, False)

    def decode(self, token: int) -> np.ndarray:
        """Appends one token and scores what follows it: float32 [vocabulary]. Errors as for `prefill`."""
        self._check([token])
        step = self._step([step for step in self._runner.steps if step.tokens == 1], 1)
        return self._run(step, [token])["logits"].reshape(-1).astype(np.float32)

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens and scores what follows each of them: float32 [tokens, vocabulary]."""
        found = self._append(tokens, None, True)
        return np.concatenate(found) if found else np.zeros((0, self.config.vocabulary), np.float32)

    def stream(self, tokens: Sequence[int], options: Options | None = None,
               cancel: Cancel | None = None) -> Iterator[Token]:
        """The tokens that continue a text, as they are chosen; the last one says why it is (`finish`).

        `cancel` is asked between steps: True ends the text (closing the iterator does so too, in the thread that reads
        it). What the cache holds of the text already is not computed again. GenerationError when another text is under
        way, the text is empty or a token unknown; ContextFull when it leaves no room.
        """
        if not self._busy.acquire(blocking=False):
            raise GenerationError("another text is under way on this model; close its iterator first")
        return generation.stream(self, list(tokens), options or Options(), cancel, self._busy.release)

    def generate(self, prompt: str | Sequence[int] | Sequence[Message], options: Options | None = None,
                 cancel: Cancel | None = None) -> Iterator[Token]:
        """As `stream`, for a text, tokens or a conversation. GenerationError without the tokenizer or the form of
        conversations that takes."""
        return self.stream(self.prompt_tokens(prompt), options, cancel)

    def prompt_tokens(self, prompt: str | Sequence[int] | Sequence[Message]) -> list[int]:
        """The tokens of a text or a conversation; tokens are left alone."""
        if isinstance(prompt, str):
            return self._text().encode(prompt)
        messages = [item for item in prompt if isinstance(item, Mapping)]
        if not messages:
            return [_whole(item) for item in prompt]
        if self.template is None:
            raise GenerationError("it is not known how this model talks; give it a text instead of messages")
        tokenizer, text = self._text(), self.template.text(messages)
        return [*([] if tokenizer.start is None else [tokenizer.start]), *tokenizer.encode(text, special=False)]

    def use(self, adapter: Adapter | None) -> None:
        """Takes an adapter (None: none) from the next step on; nothing is compiled, the text is forgotten. FormatError
        when there is no room for it."""
        slots = self.settings.slots
        if slots is None:
            raise FormatError("an adapter", expected="a model compiled with slots for one", found="none")
        for name, values in (adapter or Adapter({})).states(self.config, slots, self._gains).items():
            self._runner.write(name, values)
        self.reset()

    def close(self) -> None:
        """Gives the model back, and the device where it was opened here."""
        self._runner.close()
        if self._closes:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _text(self) -> Tokenizer:
        if self.tokenizer is None:
            raise GenerationError("the model has no tokenizer; give it tokens instead of a text")
        return self.tokenizer

    def _append(self, tokens: Sequence[int], cancel: Cancel | None, scored: bool) -> list[np.ndarray]:
        self._check(tokens)
        able = [step for step in self._runner.steps if step.logits or not scored]
        found, at = [], 0
        while at < len(tokens) and not (cancel is not None and cancel()):
            step = self._step(able, len(tokens) - at)
            part = tokens[at:at + step.tokens]
            outputs = self._run(step, part)
            if scored:
                found.append(outputs["logits"][0, :len(part)].astype(np.float32))
            at += len(part)
        return found

    def _step(self, steps: Sequence[Step], tokens: int) -> Step:
        return choose(steps, len(self._tokens), tokens)

    def _check(self, tokens: Sequence[int]) -> None:
        """GenerationError and ContextFull before anything is computed."""
        unknown = next((token for token in tokens if not 0 <= token < self.config.vocabulary), None)
        if unknown is not None:
            raise GenerationError(f"token {unknown} is none of the {self.config.vocabulary} the model knows")
        if len(self._tokens) + len(tokens) > self.context:
            raise ContextFull(self.context, len(self._tokens) + len(tokens))

    def _run(self, step: Step, tokens: Sequence[int]) -> dict[str, np.ndarray]:
        """One step on `tokens`, at most as many as it takes, and their keys and values into the cache."""
        held, count = len(self._tokens), len(tokens)
        outputs = self._runner.run(step.name, self._inputs(step, tokens))
        if step.placement is Placement.HOST:
            for name, axis in PLACES.items():
                before = (slice(None),) * axis
                self._runner.write(name, outputs[f"new_{name}"][(*before, slice(count))],
                                   (*before, slice(held, held + count)))
        self._tokens += tokens
        return outputs

    def _inputs(self, step: Step, tokens: Sequence[int]) -> dict[str, np.ndarray]:
        held, count = len(self._tokens), len(tokens)
        positions = np.minimum(np.arange(held, held + step.tokens), self.config.context - 1)
        rows = np.zeros((1, step.tokens, self.config.width), np.float16)
        rows[0, :count] = self._table[list(tokens)]
        if self._positions is not None:
            rows[0, :count] = (rows[0, :count].astype(np.float32) + self._positions[positions[:count]])
        inputs = {"embeddings": rows, "mask": mask(step, held)}
        if self.config.family == "llama":
            cosines, sines = table(self.config.rope, self.config.head_size, self.context, positions)
            inputs |= {"cosines": cosines[None, None], "sines": sines[None, None]}
        if step.placement is Placement.ENGINE:
            put = np.zeros((1, 1, step.seen, step.tokens), np.float16)
            put[0, 0, np.arange(held, held + count), np.arange(count)] = 1
            inputs["put"] = put
        return inputs


def _whole(item: object) -> int:
    if not isinstance(item, int | np.integer):
        raise GenerationError(f"a prompt is a text, tokens or messages, all of one kind; found {item!r}")
    return int(item)


def mask(step: Step, held: int) -> np.ndarray:
    """What `decoder.build` adds to scores: 0 for the `held` tokens of the cache, and for new ones up to the row's own;
    far below every score elsewhere. fp16."""
    new = np.triu(np.full((step.tokens, step.tokens), FAR, np.float16), 1)
    cache = np.full((step.tokens, step.seen), FAR, np.float16)
    cache[:, :held] = 0
    if step.placement is Placement.HOST:
        return np.concatenate([cache, new], axis=1)[None, None]
    rest = step.seen - held
    cache[:, held:held + step.tokens] = new[:, :rest]
    return cache[None, None]
