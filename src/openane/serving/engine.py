"""The one thread that runs the model, and the bounded queue before it.

One engine generates one answer at a time, in the order requests came: the key-value cache is that of one text. The
server's event loop admits, hands over and cancels; the thread checks after every token whether anyone still waits, and
hands back text through the loop. Tokenizing has a thread of its own, so that a wrong prompt is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from openane.errors import AneError
from openane.models.generation import GeneratedToken, Options
from openane.models.sampling import Sampling
from openane.serving.clients import ClientLimits, Clients
from openane.serving.protocol import TextModel
from openane.serving.refusals import Refusal, failed, queue_full, stopping
from openane.serving.requests import Request

LOGGER = logging.getLogger("openane.serving")
FIRST_ESTIMATE = 1.0
"""Seconds an answer takes, before any was measured."""
LONGEST_RETRY = 60
MEMORY = 0.8
"""Weight of the past in the mean duration of an answer."""


@dataclass(frozen=True, slots=True)
class Likely:
    """What a token says, the natural logarithm of its probability, and the same of the likeliest in its place."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text of choice `index`, and the tokens it is made of where they were asked for."""

    index: int
    text: str
    tokens: tuple[Likely, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedChoice:
    """Choice `index` is complete after `tokens` tokens. `reason` is `stop` or `length`."""

    index: int
    reason: str
    tokens: int


Event = TextPiece | FinishedChoice | Refusal | None
"""None comes last; a Refusal says what went wrong and is followed by None."""
Told = TypeVar("Told")
Emit = Callable[[Event], None]


@dataclass(eq=False)
class Job:
    """One request on its way: prompts in, `count` choices for each, events out. Events are for the event loop, `cancel`
    for anyone. `alternatives`: how many to tell for every token (None: not even its own probability). `seconds`: how
    long the engine worked on it for its `client`."""

    prompts: Sequence[Sequence[int]]
    limits: Sequence[int]
    sampling: Sampling
    stops: tuple[str, ...]
    count: int = 1
    alternatives: int | None = None
    client: str = ""
    seconds: float = 0.0
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    started: bool = False
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _future: Future[None] | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(map(len, self.prompts))

    @property
    def choices(self) -> int:
        """Choices of all prompts."""
        return len(self.prompts) * self.count

    @property
    def cancelled(self) -> bool:
        """Nobody waits for it any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ends it: at once if it waits, after the current token if it runs. Cancelling twice does nothing."""
        self._cancelled.set()
        if self._future is not None:
            self._future.cancel()

    def submitted(self, future: Future[None]) -> None:
        """Remembers what has to be cancelled."""
        self._future = future


class ServedModel:
    """A model behind a queue of `max_queue` waiting requests. All methods belong to one event loop."""

    def __init__(self, model: TextModel, vocabulary: int, max_queue: int, limits: ClientLimits | None = None) -> None:
        """Tokens are 0 to `vocabulary` - 1, `limits` those of each client."""
        self.model, self.vocabulary, self.max_queue = model, vocabulary, max_queue
        self._clients = Clients(limits)
        self._jobs: set[Job] = set()
        self._tokenizing = 0
        self._stopping = False
        self._seconds = FIRST_ESTIMATE
        self._runner = ThreadPoolExecutor(1, "openane-engine")
        self._tokenizer = ThreadPoolExecutor(1, "openane-tokenizer")

    @property
    def held(self) -> int:
        """Requests that are waiting or running."""
        return len(self._jobs) + self._tokenizing

    @property
    def running(self) -> int:
        """Requests the model works on: 0 or 1."""
        return sum(job.started for job in self._jobs)

    @property
    def stopping(self) -> bool:
        """No requests are taken any more."""
        return self._stopping

    def require_place(self, client: str = "") -> None:
        """Refusal when the queue is full, the client has all it may have, or the server is being shut down."""
        if self._stopping:
            raise stopping()
        if self.held > self.max_queue:
            raise queue_full(self.max_queue, self._retry_after())
        self._clients.require(client, self._retry_after())

    async def submit(self, request: Request, client: str = "") -> Job:
        """Admits, tokenizes and queues a request. Refusal as for `require_place`, and when the tokenizer does not take
        the prompt or it does not fit the context."""
        self.require_place(client)
        loop = asyncio.get_running_loop()
        self._clients.enter(client)
        self._tokenizing += 1
        try:
            prompts = await loop.run_in_executor(self._tokenizer, self._prompts, request)
            if self._stopping:
                raise stopping()
            job = Job(prompts, limits_of(prompts, request, self.model.context), request.sampling, request.stops,
                      request.count, request.alternatives, client)
        except BaseException:
            self._clients.leave(client)
            raise
        finally:
            self._tokenizing -= 1
        self._jobs.add(job)
        future = self._runner.submit(self._run, job, loop)
        job.submitted(future)
        future.add_done_callback(lambda _: tell(loop, self._left, job))
        return job

    def stop(self, seconds: float) -> None:
        """Takes nothing more, drops what waits, and ends what runs after `seconds`."""
        self._stopping = True
        for job in self._jobs:
            if not job.started:
                job.cancel()
        asyncio.get_running_loop().call_later(seconds, self._cancel_all)

    async def close(self) -> None:
        """Ends everything and both threads, after the token the model is at."""
        self._stopping = True
        self._cancel_all()
        while self._jobs or self._tokenizing:
            await asyncio.sleep(0.01)
        self._runner.shutdown()
        self._tokenizer.shutdown()

    def abandon(self) -> None:
        """As `close`, without waiting, when the event loop has ended."""
        self._cancel_all()
        self._runner.shutdown(wait=False)
        self._tokenizer.shutdown(wait=False)

    def _cancel_all(self) -> None:
        for job in tuple(self._jobs):
            job.cancel()

    def _prompts(self, request: Request) -> list[list[int]]:
        """The tokens of every prompt, on the tokenizer's thread. Refusal for what tokenizer or template do not take."""
        name = request.place
        prompts = []
        for asked in (request.messages,) if request.messages else request.prompts:
            if isinstance(asked, tuple) and (wrong := [t for t in asked if isinstance(t, int) and not self._known(t)]):
                raise Refusal(f"Invalid {name!r}: tokens are 0 to {self.vocabulary - 1}, but got {wrong[0]}.",
                              parameter=name, code="invalid_value")
            try:
                prompts.append(self.model.prompt_tokens(asked))
            except AneError as error:
                raise Refusal(f"Invalid {name!r}: {error}", parameter=name, code="invalid_value") from None
            if wrong := [token for token in prompts[-1] if not self._known(token)]:
                raise Refusal(f"Invalid {name!r}: the tokenizer made token {wrong[0]}, and the model knows 0 to "
                              f"{self.vocabulary - 1}.", parameter=name, code="invalid_value")
            if not prompts[-1]:
                raise Refusal(f"Invalid {name!r}: it has no tokens.", parameter=name, code="invalid_value")
        return prompts

    def _known(self, token: int) -> bool:
        return 0 <= token < self.vocabulary

    def _left(self, job: Job) -> None:
        self._jobs.discard(job)
        self._clients.leave(job.client, job.seconds)
        if not job.started:  # dropped while it waited: nobody else says so
            job.events.put_nowait(stopping())
            job.events.put_nowait(None)

    def _retry_after(self) -> int:
        """Seconds until a place is likely to be free."""
        return min(max(math.ceil(self._seconds), 1), LONGEST_RETRY)

    def _run(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        """One job, on the engine's thread."""
        job.started = True
        begin = time.monotonic()

        def emit(event: Event) -> None:
            tell(loop, job.events.put_nowait, event)

        try:
            for index in range(job.choices):
                if not job.cancelled:
                    self._generate(job, index, emit)
            if job.cancelled:
                emit(stopping())
        except Exception as error:  # whatever fails here must reach the client as an answer, and the thread must live
            emit(failed(explained(error)))
        finally:
            emit(None)
            job.seconds = time.monotonic() - begin
            self._seconds = MEMORY * self._seconds + (1 - MEMORY) * job.seconds

    def _generate(self, job: Job, index: int, emit: Emit) -> None:
        prompt, which = job.prompts[index // job.count], index % job.count
        sampling = replace(job.sampling, seed=(job.sampling.seed or 0) + which)  # every choice draws on its own
        options = Options(max_tokens=job.limits[index // job.count], sampling=sampling, stop=job.stops,
                          probabilities=job.alternatives is not None, alternatives=job.alternatives or 0)
        count, last, told = 0, prompt[-1], list[Likely]()
        for token in self.model.stream(prompt, options, lambda: job.cancelled):
            if token.number is not None:
                if token.logprob is not None and token.finish != "stop":  # what ends a text is no part of it
                    told.append(self._likely(token, last))
                count, last = count + 1, token.number
            if token.text or (told and token.finish == "length"):
                emit(TextPiece(index, token.text, tuple(told)))
                told.clear()
            if token.finish is not None and not job.cancelled:
                emit(FinishedChoice(index, token.finish, count))

    def _likely(self, token: GeneratedToken, before: int) -> Likely:
        def text(number: int) -> str:
            return "" if self.model.tokenizer is None else self.model.tokenizer.piece(number, before)

        assert token.number is not None
        assert token.logprob is not None
        others = tuple((text(number), logprob) for number, logprob in token.alternatives)
        return Likely(text(token.number), token.logprob, others)


def limits_of(prompts: Sequence[Sequence[int]], request: Request, context: int) -> list[int]:
    """How many tokens each answer may have. Refusal where prompt and answer do not fit the context."""
    name = request.place
    limits = []
    for prompt in prompts:
        room = context - len(prompt)
        if room < (request.limit or 1):
            wanted = "" if request.limit is None else f" and {request.limit} for the answer"
            raise Refusal(f"This model's maximum context length is {context} tokens. However, your request has "
                          f"{len(prompt)} tokens in '{name}'{wanted}. Please shorten them.", parameter=name,
                          code="context_length_exceeded")
        limits.append(request.limit or room)
    return limits


def tell(loop: asyncio.AbstractEventLoop, function: Callable[[Told], object], argument: Told) -> None:
    """Has the loop call a function; nothing where the loop has ended, because nobody is left to hear."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, argument)


def explained(error: Exception) -> str:
    """What a client and the log learn of a failure: our own errors in full, of others only their kind and place,
    because their text may quote a prompt."""
    if isinstance(error, AneError):
        text = str(error)
    else:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
        text = f"{type(error).__name__}{place}"
    LOGGER.error("the model failed: %s", text)
    return text
