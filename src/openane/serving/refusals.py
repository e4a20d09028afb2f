"""What the server answers instead of a text: a status and the error body of OpenAI's API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from openane.errors import AneError


class Refusal(AneError):
    """A request that gets an error. `parameter` names the field at fault, `code` is OpenAI's short name of the reason,
    `retry_after` is in seconds. After one that is `last`, nothing more is read from the connection."""

    def __init__(self, message: str, *, parameter: str | None = None, code: str | None = None,
                 status: HTTPStatus = HTTPStatus.BAD_REQUEST, retry_after: int | None = None,
                 last: bool = False) -> None:
        self.parameter, self.code, self.status, self.retry_after = parameter, code, status, retry_after
        self.last = last or status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT)
        super().__init__(message)

    def document(self) -> dict[str, Any]:
        """The body. Its `type` follows from the status."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """Headers that belong to it."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if self.last:
            headers["connection"] = "close"
        return headers


_TYPES = {HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error", HTTPStatus.UNAUTHORIZED: "authentication_error"}


RESTART = 30
"""Seconds after which a server that was stopped may be there again: nobody knows."""


def queue_full(limit: int, seconds: int) -> Refusal:
    """The queue has no place."""
    return Refusal(f"the engine is busy and {limit} requests are waiting, which is the limit; try again in {seconds} s",
                   code="queue_full", status=HTTPStatus.TOO_MANY_REQUESTS, retry_after=seconds)


def too_slow(seconds: float) -> Refusal:
    """An answer that was not complete in time."""
    return Refusal(f"the answer was not complete within {seconds:g} s; ask for fewer tokens or when less is waiting",
                   code="timeout", status=HTTPStatus.GATEWAY_TIMEOUT)


def stopping() -> Refusal:
    """The server is being shut down."""
    return Refusal("the server is shutting down", code="shutting_down", status=HTTPStatus.SERVICE_UNAVAILABLE,
                   retry_after=RESTART)


def failed(reason: str) -> Refusal:
    """The model or its device failed."""
    return Refusal(f"the model failed: {reason}", code="model_failed", status=HTTPStatus.INTERNAL_SERVER_ERROR)
