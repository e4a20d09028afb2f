"""A connection to a client that may be slow, silent, or one of too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from openane.serving.answers import encoded
from openane.serving.clients import client_of
from openane.serving.refusals import Refusal

IDLE_SECONDS = 30
"""The head of a request, the first or another one, is there by then, or the connection ends."""
STALLED_SECONDS = 30
"""A connection whose client has stopped to read is dropped then."""
CONNECTIONS = 256
"""Open connections, unless another number is stated."""
LINGER = 1.0
"""Seconds in which what a refused client still sends is dropped, so that it learns why it was refused."""
SOON = 1
"""Seconds after which a connection may be free."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections may be open, and how many of them to one client (None: as many)."""

    connections: int = CONNECTIONS
    each: int | None = None


class GuardedConnection(H11Protocol):
    """A connection that ends when a request does not come, when its client does not read what is sent, or at once where
    there are too many. What it says itself are errors as the routes give them."""

    def __init__(self, limits: ConnectionLimits, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits, self._client, self._ended = limits, "", False
        self._awaited: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """See asyncio."""
        super().connection_made(transport)
        self._client = "" if self.client is None else client_of(self.client[0])
        clients = [each._client for each in self.connections if isinstance(each, GuardedConnection) and not each._ended]
        most, each = self._limits.connections, self._limits.each
        if len(self.connections) > 2 * most:
            self.transport.abort()  # not even a refusal
        elif len(clients) > most:
            self._end(_too_many(f"this server has {most} connections, which is the limit",
                                HTTPStatus.SERVICE_UNAVAILABLE, "too_many_connections"))
        elif each is not None and clients.count(self._client) > each:
            self._end(_too_many(f"this client has {each} connections, which is the limit",
                                HTTPStatus.TOO_MANY_REQUESTS, "client_connections"))
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        for timer in (self._awaited, self._stalled):
            if timer is not None:
                timer.cancel()  # it would keep the connection's memory
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio. Nothing more is heard from a client that was told to go."""
        if not self._ended and not self.transport.is_closing():
            super().data_received(data)

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """See uvicorn, which lets a client take its time with the next request once it has begun it."""
        super().on_response_complete()
        self._await_head()

    def send_400_response(self, msg: str) -> None:
        """See uvicorn, whose answer is no JSON."""
        self._end(Refusal(f"This is no request of HTTP/1.1 with a head of at most "
                          f"{self.conn._max_incomplete_event_size} bytes.", code="bad_request"))

    def _await_head(self) -> None:
        self._await(IDLE_SECONDS, self._late)

    def _await(self, seconds: float, then: Callable[[], None]) -> None:
        """Has one thing done later, and not what was to be done before."""
        if self._awaited is not None:
            self._awaited.cancel()
        self._awaited = self.loop.call_later(seconds, then)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _late(self) -> None:
        """There is no whole head of a request yet."""
        if self._answering():
            return
        if self.conn.trailing_data[0] and not self.transport.is_closing():
            self._end(Refusal(f"the head of the request did not arrive within {IDLE_SECONDS:g} s", code="timeout",
                              status=HTTPStatus.REQUEST_TIMEOUT))
        else:
            self._close()

    def _end(self, refusal: Refusal) -> None:
        """Says why, unless something else is being said, and ends the connection."""
        if self._answering():
            self._close()
            return
        self._ended = True
        self.transport.write(_raw(refusal))
        self.transport.write_eof()
        self._await(LINGER, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._await(STALLED_SECONDS, self.transport.abort)  # where the client does not read the rest


def _too_many(reason: str, status: HTTPStatus, code: str) -> Refusal:
    return Refusal(f"{reason}; try again in {SOON} s", code=code, status=status, retry_after=SOON)


def _raw(refusal: Refusal) -> bytes:
    """A refusal as the last answer of a connection."""
    body = encoded(refusal.document())
    headers = {**refusal.headers(), "content-type": "application/json", "content-length": str(len(body)),
               "connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\n{head}\r\n".encode() + body
