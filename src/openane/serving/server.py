"""Sockets, signals and the end: a `Service` on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn

from openane.errors import AneError
from openane.serving.app import Service
from openane.serving.connection import IDLE_SECONDS, STALLED_SECONDS, ConnectionLimits, GuardedConnection

MARGIN = 5
"""Seconds after the grace in which answers that were ended are still written."""
NOTICED = 0.1
"""Seconds until a second signal is noticed, as uvicorn has it."""


class HttpServer(uvicorn.Server):
    """Serves until `stop`, SIGINT or SIGTERM. Answers that are being generated then have `grace` seconds to end, those
    that wait are refused. A second signal ends everything at once. `ready` is called when clients are served."""

    def __init__(self, service: Service, listening: socket.socket, grace: float,
                 ready: Callable[[], None] = lambda: None, limits: ConnectionLimits | None = None) -> None:
        self._service, self._listening, self._grace, self._ready = service, listening, grace, ready
        super().__init__(uvicorn.Config(
            service.app(), http=partial(GuardedConnection, limits or ConnectionLimits()),  # type: ignore[arg-type]
            ws="none", loop="asyncio", lifespan="on", log_config=None,
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=int(grace) + MARGIN))

    def serve_until_stopped(self) -> None:
        """Blocks until the end. Handles signals when called by the main thread. AneError when another server, which
        was bound while this one loaded its model, listens already."""
        try:
            with _refusals(*self._listening.getsockname()[:2]):
                self._listening.listen()
            self.run([self._listening])
        finally:
            self._service.engine.abandon()
            self._listening.close()

    def stop(self) -> None:
        """Begins the end; for any thread."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins the end, or hurries it. The signal is not raised again afterwards: the server ended as asked."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._service.engine.stop(self._grace)
        hurrying = asyncio.create_task(self._hurry())
        try:
            await super().shutdown(sockets)
        finally:
            hurrying.cancel()

    async def _hurry(self) -> None:
        """Cuts connections after a second signal: from Python 3.12 on the end waits for all of them otherwise."""
        while not self.force_exit:
            await asyncio.sleep(NOTICED)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def bound(host: str, port: int) -> socket.socket:
    """A socket with an address, port 0 taking a free one, that does not listen yet: clients are refused until the
    server runs. AneError when the address cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise AneError(f"there is no address {host!r} to listen on: {error}") from None
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        with _refusals(host, port):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: what is left to send at the end must not stay
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
            made.bind(address)
    except AneError:
        made.close()
        raise
    return made


@contextmanager
def _refusals(host: str, port: int) -> Iterator[None]:
    """AneError where the system refuses the address."""
    try:
        yield
    except OSError as error:
        hint = "\nhint: --port 0 takes a free port" if error.errno == errno.EADDRINUSE else ""
        raise AneError(f"cannot listen on {host}, port {port}: {error.strerror}{hint}") from None
