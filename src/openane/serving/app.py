"""The routes: models, chat, completions, health. Every answer that is an error has the body OpenAI's API gives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from openane.serving.answers import LAST, Answer, encoded, model_document, server_sent
from openane.serving.engine import Event, Job, ServedModel, explained
from openane.serving.guard import Guard
from openane.serving.refusals import Refusal, too_slow
from openane.serving.requests import Request as Asked
from openane.serving.requests import chat_of, completion_of, document_of

LOGGER = logging.getLogger("openane.serving")
LONGEST_NAME = 100
"""Characters of a client's own words in a message."""
Result = TypeVar("Result")


class ClientGone(Exception):
    """The client has closed its connection: nobody is left to answer."""


@dataclass(frozen=True)
class Service:
    """A model under a name on a device, and how long (seconds) a request may take, waiting included."""

    name: str
    device: str
    engine: ServedModel
    guard: Guard
    seconds: float
    created: int = field(default_factory=lambda: int(time.time()))

    def app(self) -> Starlette:
        """The application; its lifespan ends the engine."""
        routes = [Route("/health", self._answering(self._health)),
                  Route("/v1/models", self._answering(self._models)),
                  Route("/v1/models/{name:path}", self._answering(self._model)),
                  Route("/v1/chat/completions", self._answering(self._chat), methods=["POST"]),
                  Route("/v1/completions", self._answering(self._completion), methods=["POST"])]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await self.engine.close()

        app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _no_route})
        app.router.redirect_slashes = False
        return app

    def _answering(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The handler, with what it refuses and what fails in it made answers."""
        async def answer(request: Request) -> Response:
            try:
                self.guard.admit(request)
                return await handler(request)
            except Refusal as refusal:
                return error_response(refusal)
            except ClientGone:
                return Response(status_code=499)  # not sent to anybody
            except Exception as error:  # a defect: an answer without a traceback
                return error_response(Refusal(f"the server failed: {explained(error)}", code="internal_error",
                                              status=HTTPStatus.INTERNAL_SERVER_ERROR))
        return answer

    async def _health(self, _: Request) -> Response:
        engine = self.engine
        status = HTTPStatus.SERVICE_UNAVAILABLE if engine.stopping else HTTPStatus.OK
        return json_response({"status": "stopping" if engine.stopping else "ok", "model": self.name,
                              "device": self.device, "running": engine.running,
                              "waiting": engine.held - engine.running, "max_queue": engine.max_queue}, status)

    async def _models(self, _: Request) -> Response:
        return json_response({"object": "list", "data": [model_document(self.name, self.created)]})

    async def _model(self, request: Request) -> Response:
        self._require(request.path_params["name"])
        return json_response(model_document(self.name, self.created))

    async def _chat(self, request: Request) -> Response:
        return await self._generate(request, chat_of)

    async def _completion(self, request: Request) -> Response:
        return await self._generate(request, completion_of)

    def _require(self, name: str) -> None:
        if name != self.name:
            raise Refusal(f"The model {name[:LONGEST_NAME]!r} does not exist; this server has {self.name!r}.",
                          parameter="model", code="model_not_found", status=HTTPStatus.NOT_FOUND)

    async def _generate(self, request: Request, read: Callable[[dict[str, Any]], Asked]) -> Response:
        client = self.guard.client(request)
        self.engine.require_place(client)  # before anything is read
        asked = read(document_of(await self.guard.body(request)))
        self._require(asked.model)
        end = asyncio.get_running_loop().time() + self.seconds
        job = await attended(self.engine.submit(asked, client), request.receive, end, self.seconds)
        try:
            answer = Answer(self.name, bool(asked.messages), asked.usage, job.prompt_tokens, job.choices,
                            asked.alternatives is not None)
            first = await attended(job.events.get(), request.receive, end, self.seconds)
            if isinstance(first, Refusal):
                raise first
            if asked.stream:
                return EventStream(job, answer, first, end, self.seconds)
            await attended(_collect(job, answer, first), request.receive, end, self.seconds)
        except BaseException:
            job.cancel()
            raise
        _log(answer)
        return json_response(answer.whole())


class EventStream(Response):
    """An answer as server-sent events. It ends the job when the client leaves or time is up, and says in an event what
    went wrong once the answer has begun."""

    media_type = "text/event-stream"

    def __init__(self, job: Job, answer: Answer, first: Event, end: float, seconds: float) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._job, self._answer, self._first, self._end, self._seconds = job, answer, first, end, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Starlette."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                await attended(self._write(send), receive, self._end, self._seconds)
                last = LAST
            except Refusal as refusal:
                last = server_sent(refusal.document())
            await attended(send({"type": "http.response.body", "body": last}), receive, self._end + 1, self._seconds)
            _log(self._answer)
        except (ClientGone, OSError, Refusal):
            return  # there is nobody to tell
        finally:
            self._job.cancel()

    async def _write(self, send: Send) -> None:
        async def say(document: object) -> None:
            await send({"type": "http.response.body", "body": server_sent(document), "more_body": True})

        for document in self._answer.opening():
            await say(document)
        event = self._first
        while event is not None:
            if isinstance(event, Refusal):
                raise event
            await say(self._answer.chunk(event))
            event = await self._job.events.get()
        for document in self._answer.closing():
            await say(document)


async def attended(work: Coroutine[Any, Any, Result] | Awaitable[Result], receive: Receive, end: float,
                   seconds: float) -> Result:
    """Awaits `work` until the loop's time is `end`. ClientGone when the client leaves, Refusal when time is up; `work`
    is cancelled then."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        left = max(end - asyncio.get_running_loop().time(), 0)
        await asyncio.wait({working, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone if gone.done() else too_slow(seconds)
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _collect(job: Job, answer: Answer, first: Event) -> None:
    """Puts all events into the answer."""
    event = first
    while event is not None:
        if isinstance(event, Refusal):
            raise event
        answer.take(event)
        event = await job.events.get()


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status, path = HTTPStatus(error.status_code), str(request.scope["path"])[:LONGEST_NAME]
    reason = (f"Not allowed to {request.method} on {path}" if status is HTTPStatus.METHOD_NOT_ALLOWED else
              f"Invalid URL ({request.method} {path})")
    response = error_response(Refusal(reason, code="unknown_url", status=status))
    response.headers.update(error.headers or {})
    return response


def json_response(document: object, status: int = HTTPStatus.OK) -> Response:
    """A document as the whole answer."""
    return Response(encoded(document), status, media_type="application/json")


def error_response(refusal: Refusal) -> Response:
    """A refusal as the whole answer."""
    return Response(encoded(refusal.document()), refusal.status, refusal.headers(), "application/json")


def _log(answer: Answer) -> None:
    """Counts only: prompts and answers are nobody else's."""
    LOGGER.info("%s: %d + %d tokens in %.1f s", "chat" if answer.chat else "completion", answer.prompt_tokens,
                answer.completion_tokens, time.monotonic() - answer.begun)
