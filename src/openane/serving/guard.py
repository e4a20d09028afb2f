"""What is checked before a request reaches a route: where it says it goes, its key, its kind, and its size.

A web page may send requests to servers on the reader's own machine. It cannot send JSON without being asked first, and
cannot name `localhost` as host through a domain of its own; so a body must be declared as JSON, and a server on a
loopback address without keys takes only requests to a loopback name.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from starlette.requests import ClientDisconnect, Request

from openane.errors import FormatError
from openane.serving.clients import client_of
from openane.serving.refusals import Refusal

BODY_LIMIT = 1 << 20
"""Bytes of a request's body."""
BODY_SECONDS = 30.0
LARGEST_KEYS = 1 << 20
"""Bytes of a file of keys."""
OPEN_PATHS = frozenset({"/health"})
"""What needs no key."""


@dataclass(frozen=True)
class Guard:
    """`keys` are accepted bearer tokens (none: everybody may), `local` allows loopback hosts only."""

    keys: Sequence[str] = ()
    local: bool = True
    limit: int = BODY_LIMIT
    seconds: float = BODY_SECONDS

    def admit(self, request: Request) -> None:
        """Refusal for a wrong host or key, and for a body of two lengths: a proxy may go by one and find another
        request where this server, which goes by the other, finds the body."""
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise Refusal("a request states Content-Length or Transfer-Encoding, not both", code="bad_request",
                          last=True)
        if self.local and not self.keys and not is_loopback(request.headers.get("host", "")):
            raise Refusal("this server is for its own machine: send requests to localhost, or start it with "
                          "--api-key-file", code="wrong_host", status=HTTPStatus.FORBIDDEN)
        if self.keys and request.scope["path"] not in OPEN_PATHS and self._key(request) is None:
            raise Refusal("Incorrect API key provided: send 'Authorization: Bearer KEY' with a key of this server.",
                          code="invalid_api_key", status=HTTPStatus.UNAUTHORIZED)

    def client(self, request: Request) -> str:
        """Who sends a request that was admitted."""
        address = "" if request.client is None else client_of(request.client.host)
        return f"key {self._key(request)}" if self.keys else address

    async def body(self, request: Request) -> bytes:
        """The request's body. Refusal when it is not declared as JSON, too large (by what is declared before anything
        is read, by what comes where nothing is) or too slow."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal("a request's body is JSON: send 'Content-Type: application/json'", code="wrong_content_type",
                          status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > len(str(self.limit)) or int(declared) > self.limit:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.seconds):
                return await self._read(request)
        except TimeoutError:
            raise Refusal(f"the request's body did not arrive within {self.seconds:g} s", code="timeout",
                          status=HTTPStatus.REQUEST_TIMEOUT) from None
        except ClientDisconnect:
            raise Refusal("the request ended before its body was complete") from None

    async def _read(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.limit:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> Refusal:
        return Refusal(f"the request's body is larger than {self.limit} bytes", code="request_too_large",
                       status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _key(self, request: Request) -> int | None:
        """The number of the key that a request has. The time this takes tells nothing of any key: digests are compared,
        whole, with those of all keys."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = sha256(key.strip().encode("latin-1", "replace")).digest()
        matches = [hmac.compare_digest(given, sha256(known.encode()).digest()) for known in self.keys]
        return matches.index(True) if scheme.lower() == "bearer" and any(matches) else None


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys of a file, one per line; empty lines and those that begin with # are none. FormatError where there is
    no key, one holds a space, or it is longer than `LARGEST_KEYS`."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_KEYS + 1)
        if len(data) > LARGEST_KEYS:
            raise FormatError(path.name, expected=f"keys, at most {LARGEST_KEYS} bytes", found="more")
        return keys_of(data.decode("utf-8"), path.name)
    except UnicodeDecodeError:
        raise FormatError(path.name, expected="keys as text, one per line", found="bytes that are no UTF-8") from None


def keys_of(text: str, place: str) -> tuple[str, ...]:
    """The keys of a text from a `place`, as those of a file. The error shows no key."""
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys or any(len(key.split()) > 1 for key in keys):
        raise FormatError(place, expected="keys, one per line, without spaces",
                          found="none" if not keys else "a line with a space")
    return keys


def is_loopback(host: str) -> bool:
    """Whether `host`, with or without a port, names this machine's loopback interface. Starlette's own check of hosts
    compares names, and so would not take all of 127.0.0.0/8."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host
    if name.count(":") == 1:
        name = name.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
