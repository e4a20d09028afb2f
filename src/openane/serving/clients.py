"""Who is asking, and how much of the server one client may have: requests at once, and time of the engine.

A client is a key where keys are asked for, else an address; addresses of IPv6 that share their first 64 bits, which one
customer has to choose from, are one client.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from openane.serving.refusals import Refusal

WINDOW = 600.0
"""Seconds in which a client may have its time of the engine."""
NETWORK = 64
"""Bits of an IPv6 address that say whose it is."""
MANY = 1024
"""Clients that are remembered before those are looked for that nothing need be remembered of."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may have (None: no limit): requests that wait or run, seconds of the engine in WINDOW seconds,
    open connections."""

    requests: int | None = None
    seconds: float | None = None
    connections: int | None = None


@dataclass(slots=True)
class _Account:
    """Requests a client has here, and the time it has used and not been forgiven at a moment of the clock."""

    held: int
    used: float
    moment: float


class Clients:
    """What each client has. All methods belong to one event loop."""

    def __init__(self, limits: ClientLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds."""
        self.limits, self._clock = limits or ClientLimits(), clock
        self._accounts: dict[str, _Account] = {}

    def require(self, client: str, retry_after: int) -> None:
        """Refusal where a client has all it may have. `retry_after`: seconds after which a request is likely to have
        ended."""
        account = self._accounts.get(client)
        if account is None:
            return
        if self.limits.requests is not None and account.held >= self.limits.requests:
            raise _too_much(f"this client has {account.held} requests here, which is the limit", "client_requests",
                            retry_after)
        if self.limits.seconds is not None:
            self._forgive(account)
            if account.used >= self.limits.seconds:
                least = (account.used - self.limits.seconds) * WINDOW / self.limits.seconds
                raise _too_much(f"this client has used its {self.limits.seconds:g} s of the engine in {WINDOW:g} s",
                                "client_time", math.floor(least) + 1)

    def enter(self, client: str) -> None:
        """A request is taken."""
        if len(self._accounts) >= MANY:
            self._forget()
        self._accounts.setdefault(client, _Account(0, 0.0, self._clock())).held += 1

    def leave(self, client: str, seconds: float = 0.0) -> None:
        """A request has ended that took so many seconds of the engine."""
        account = self._accounts[client]
        self._forgive(account)
        account.held -= 1
        account.used += seconds
        if not account.held and (self.limits.seconds is None or not account.used):
            del self._accounts[client]

    def _forgive(self, account: _Account) -> None:
        now = self._clock()
        account.used = max(0.0, account.used - (now - account.moment) * (self.limits.seconds or 0.0) / WINDOW)
        account.moment = now

    def _forget(self) -> None:
        for client, account in tuple(self._accounts.items()):
            self._forgive(account)
            if not account.held and not account.used:
                del self._accounts[client]


def client_of(address: str) -> str:
    """The client at an address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, NETWORK), strict=False)) if found.version == 6 else str(found)


def _too_much(reason: str, code: str, seconds: int) -> Refusal:
    return Refusal(f"{reason}; try again in {seconds} s", code=code, status=HTTPStatus.TOO_MANY_REQUESTS,
                   retry_after=seconds)
