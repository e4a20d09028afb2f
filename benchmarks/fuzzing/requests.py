"""Targets: what clients send to the server, from the first byte on, and the bodies of their requests."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fuzzing.files import Target
from fuzzing.mutants import of_bytes, of_json, of_text, one_of
from openane.errors import AneError


def http_body(_: Path) -> Target:
    """Bodies of requests to the server."""
    from openane.serving.requests import chat_of, completion_of, document_of

    seeds = [json.dumps(each).encode() for each in (
        {"model": "m", "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": [
            {"type": "text", "text": "hé"}]}], "max_completion_tokens": 4, "temperature": 0.5, "stop": ["a"], "n": 2,
         "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 3, "tools": []},
        {"model": "m", "prompt": ["a", "b"], "max_tokens": 3, "seed": 1, "top_p": 0.9, "top_k": 5, "logprobs": 2},
        {"model": "m", "prompt": [1, 2, 3], "user": "u", "store": False, "metadata": {"a": "b"}, "best_of": 1})]

    def read(data: bytes) -> object:
        document = document_of(data)
        return (chat_of if "messages" in document else completion_of)(document)

    return Target(seeds, one_of(of_json, of_json, of_text), read)


class _Pipe(asyncio.Transport):
    """A transport whose other end is this process."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent, self.closed = bytearray(), False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def http(_: Path) -> Target:
    """What a client sends to the server, from the first byte on: every answer is whole, and none a failure."""
    from support.text_model import VOCABULARY, ByteModel
    from uvicorn.server import ServerState

    from openane.serving.app import Service
    from openane.serving.connection import ConnectionLimits, GuardedConnection
    from openane.serving.engine import ServedModel
    from openane.serving.guard import Guard
    from openane.serving.server import HttpServer

    logging.disable()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    server = HttpServer(Service("m", "none", ServedModel(ByteModel(), VOCABULARY, 8), Guard(), 2.0), socket.socket(), 0)
    server.config.load()
    make = partial(GuardedConnection, ConnectionLimits())
    body = json.dumps({"model": "m", "prompt": "x", "max_tokens": 2}).encode()
    head = b"Host: localhost\r\nContent-Type: application/json\r\n"
    seeds = [b"POST /v1/completions HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body),
             b"GET /v1/models HTTP/1.1\r\n%s\r\nGET /health HTTP/1.1\r\n%s\r\n" % (head, head),
             b"GET /v1/models/m HTTP/1.0\r\n%sAuthorization: Bearer x\r\n\r\n" % head,
             b"POST /v1/completions HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
                 head, len(body), body)]

    async def talk(data: bytes) -> bytes:
        state, pipe = ServerState(), _Pipe()
        connection = make(config=server.config, server_state=state, app_state={}, _loop=loop)
        connection.connection_made(pipe)
        middle = len(data) // 2
        for part in (data[:middle], data[middle:]):
            if part and not pipe.closed:
                connection.data_received(part)
            await asyncio.sleep(0)
        for _ in range(4):
            if state.tasks:
                await asyncio.wait(state.tasks, timeout=0.005)
        connection.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=2)
            assert not state.tasks, "a request outlives its connection"
        return bytes(pipe.sent)

    def read(data: bytes) -> object:
        answer = loop.run_until_complete(talk(data))
        status = answer[9:12]
        if answer and (not answer.startswith(b"HTTP/1.1 ") or status.startswith(b"5") or b"Traceback" in answer):
            raise AssertionError(f"the answer {answer[:200]!r}")
        if not answer.startswith(b"HTTP/1.1 2"):
            raise AneError(f"refused: {answer[:200]!r}")
        return answer

    return Target(seeds, one_of(of_text, of_text, of_bytes), read)


TARGETS: dict[str, Callable[[Path], Target]] = {"http-body": http_body, "http": http}
