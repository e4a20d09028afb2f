"""A server on a free port in a thread, and plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from support.text_model import VOCABULARY

from openane.serving.app import Service
from openane.serving.clients import ClientLimits
from openane.serving.connection import ConnectionLimits
from openane.serving.engine import ServedModel
from openane.serving.guard import Guard
from openane.serving.server import HttpServer, bound

HOST = "127.0.0.1"
MODEL = "bytes"


class Served:
    """What a test needs of a running server."""

    def __init__(self, server: HttpServer, engine: ServedModel, port: int) -> None:
        self.server, self.engine, self.port = server, engine, port

    @property
    def url(self) -> str:
        """The base of OpenAI's endpoints."""
        return f"http://{HOST}:{self.port}/v1"

    def request(self, method: str, path: str, body: bytes | None = None,
                headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case, body."""
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=20)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def post(self, path: str, document: object, **headers: str) -> tuple[int, Any]:
        """Status and JSON document."""
        status, _, body = self.request("POST", path, json.dumps(document).encode(), headers)
        return status, json.loads(body)

    def chat(self, text: str, **fields: object) -> tuple[int, Any]:
        """One message of a user."""
        return self.post("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": text}],
                                                  **fields})

    def complete(self, prompt: object, **fields: object) -> tuple[int, Any]:
        """A prompt to continue."""
        return self.post("/v1/completions", {"model": MODEL, "prompt": prompt, **fields})

    def events(self, path: str, document: object) -> list[Any]:
        """The events of a stream, `[DONE]` included."""
        status, headers, body = self.request("POST", path, json.dumps(document).encode())
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        lines = body.decode().split("\n\n")
        assert lines.pop() == ""
        assert all(line.startswith("data: ") for line in lines)
        return [line if line == "[DONE]" else json.loads(line) for line in (each[6:] for each in lines)]


@contextmanager
def served(model: Any, *, max_queue: int = 64, seconds: float = 20, grace: float = 5, guard: Guard | None = None,
           buffer: int = 0, vocabulary: int = VOCABULARY, limits: ClientLimits | None = None,
           connections: ConnectionLimits | None = None) -> Iterator[Served]:
    """Serves for the length of a `with` block, with send buffers of `buffer` bytes (0: the system's); then server,
    threads and sockets must be gone."""
    before = set(threading.enumerate())
    listening = bound(HOST, 0)
    if buffer:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    engine = ServedModel(model, vocabulary, max_queue, limits)
    server = HttpServer(Service(MODEL, "none", engine, guard or Guard(), seconds), listening, grace, limits=connections)
    thread = threading.Thread(target=server.serve_until_stopped, name="server")
    port = listening.getsockname()[1]
    thread.start()
    try:
        until(lambda: server.started)
        yield Served(server, engine, port)
    finally:
        server.stop()
        thread.join(20)
    until(lambda: set(threading.enumerate()) <= before)
    assert listening.fileno() == -1


def until(true: Callable[[], object], seconds: float = 10) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)
