"""Who waits, who is turned away, who leaves, and the end of the server."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from support.http_service import HOST, MODEL, Served, served, until
from support.text_model import ByteModel

from openane.errors import DeviceError

ENDLESS: dict[str, Any] = {"model": MODEL, "prompt": "x", "max_tokens": 4000}
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


@contextmanager
def asked(server: Served, path: str, document: object) -> Iterator[http.client.HTTPConnection]:
    """A request on its way; leaving the block closes the connection."""
    with closing(http.client.HTTPConnection(HOST, server.port, timeout=20)) as connection:
        connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
        yield connection


def test_64_clients_get_the_answers_to_their_own_questions() -> None:
    with served(ByteModel()) as server, ThreadPoolExecutor(64) as clients:
        questions = [f"question {number} \N{BALLOON}" for number in range(64)]
        start = threading.Barrier(64)

        def ask(question: str) -> str:
            start.wait()
            if question.split()[1] > "4":
                return str(server.chat(question)[1]["choices"][0]["message"]["content"])
            document = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": question}]}
            events = server.events("/v1/chat/completions", document)
            return "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])

        assert list(clients.map(ask, questions)) == [f"You said: {question}" for question in questions]
        until(lambda: server.engine.held == 0)


def test_a_full_queue_says_when_to_come_again_and_empties() -> None:
    model = ByteModel()
    with served(model, max_queue=2) as server, ThreadPoolExecutor(3) as clients:
        model.hold.clear()
        waiting = [clients.submit(server.chat, "hi") for _ in range(3)]
        until(lambda: server.engine.held == 3)
        status, headers, body = server.request("POST", "/v1/chat/completions", json.dumps(CHAT).encode())
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert json.loads(body)["error"]["type"] == "rate_limit_error"
        health = json.loads(server.request("GET", "/health")[2])
        assert (health["running"], health["waiting"]) == (1, 2)
        model.hold.set()
        assert [each.result()[0] for each in waiting] == [200] * 3
        until(lambda: server.engine.held == 0)
        assert server.chat("hi")[0] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_stops_its_text(stream: bool) -> None:
    model = ByteModel(pause=0.002)
    with served(model) as server:
        with asked(server, "/v1/completions", {**ENDLESS, "stream": stream}) as connection:
            if stream:
                assert connection.getresponse().read(100)
            until(lambda: model.tokens > 3)
        until(lambda: server.engine.held == 0)
        assert model.tokens < 2000
        assert model.ended == 1
        assert server.chat("next")[0] == 200


def test_clients_that_leave_while_they_wait_free_the_queue() -> None:
    model = ByteModel()
    with served(model, max_queue=1) as server:
        model.hold.clear()
        with asked(server, "/v1/completions", ENDLESS):
            until(lambda: server.engine.running == 1)
            for _ in range(5):
                with asked(server, "/v1/completions", ENDLESS):
                    until(lambda: server.engine.held == 2)
                    assert server.chat("hi")[0] == 429
                until(lambda: server.engine.held == 1)
        until(lambda: server.engine.held == 0)
        assert model.started == 1
        model.hold.set()
        assert server.chat("hi")[0] == 200


@pytest.mark.parametrize("begun", [False, True])
def test_time_is_limited(begun: bool) -> None:
    model = ByteModel(pause=0.002 if begun else 0)
    with served(model, seconds=1 if begun else 0.3) as server:
        if not begun:
            model.hold.clear()
            status, answer = server.chat("hi")
            assert (status, answer["error"]["code"]) == (504, "timeout")
            assert server.chat("hi", stream=True)[0] == 504
        else:
            assert server.complete("x", max_tokens=4000)[0] == 504
            events = server.events("/v1/completions", {**ENDLESS, "stream": True})
            assert len(events) > 3
            assert events[-1]["error"]["code"] == "timeout"
        model.hold.set()
        until(lambda: server.engine.held == 0)


def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.serving.connection.STALLED_SECONDS", 1)
    model = ByteModel(answer=lambda _: b"x" * 4000)
    with served(model, seconds=1, buffer=4096) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((HOST, server.port))
        body = json.dumps({**CHAT, "stream": True}).encode()
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: model.ended == 1 and not server.server.server_state.connections)
        received = b""
        with contextlib.suppress(ConnectionResetError):  # how a dropped connection may end
            while part := slow.recv(1 << 16):
                received += part
        assert b"DONE" not in received
        assert server.chat("hi", max_tokens=1)[0] == 200


def test_a_model_that_fails_is_an_answer_and_quotes_no_prompt(caplog: pytest.LogCaptureFixture) -> None:
    model = ByteModel()
    with served(model) as server:
        model.failure = DeviceError("the engine is gone")
        status, answer = server.chat("hi")
        assert (status, answer["error"]["type"]) == (500, "server_error")
        assert "the engine is gone" in answer["error"]["message"]
        model.failure = KeyError("SECRET")
        status, answer = server.chat("SECRET")
        assert status == 500
        assert "KeyError" in answer["error"]["message"]
        assert "Traceback" not in str(answer)
        model.failure = None
        assert server.chat("hi")[0] == 200
    assert "the engine is gone" in caplog.text
    assert "SECRET" not in caplog.text


def test_nothing_of_texts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    with served(ByteModel()) as server:
        server.chat("SECRET")
        server.chat("SECRET", n=2)
        server.events("/v1/completions", {"model": MODEL, "prompt": "SECRET", "stream": True})
    records = [record for record in caplog.records if record.name.startswith(("openane", "uvicorn"))]
    assert any("tokens" in record.getMessage() for record in records)
    assert not any("SECRET" in record.getMessage() for record in records)


def test_shutdown_lets_what_runs_end_and_turns_the_rest_away() -> None:
    model = ByteModel(pause=0.005)
    with served(model, grace=20) as server, ThreadPoolExecutor(2) as clients:
        running = clients.submit(server.events, "/v1/completions", {**ENDLESS, "max_tokens": 60, "stream": True})
        until(lambda: model.tokens > 3)
        model.hold.clear()
        waiting = clients.submit(server.chat, "hi")
        until(lambda: server.engine.held == 2)
        server.server.stop()
        status, answer = waiting.result()
        assert (status, answer["error"]["code"]) == (503, "shutting_down")
        model.hold.set()
        events = running.result()
        assert events[-1] == "[DONE]"
        assert events[-2]["choices"][0]["finish_reason"] == "length"


def test_shutdown_ends_what_takes_longer_than_its_grace() -> None:
    model = ByteModel(pause=0.005)
    with served(model, grace=0.2) as server, ThreadPoolExecutor(1) as clients:
        running = clients.submit(server.events, "/v1/completions", {**ENDLESS, "stream": True})
        until(lambda: model.tokens > 3)
        server.server.stop()
        assert running.result()[-1]["error"]["code"] == "shutting_down"
        assert model.tokens < 1000
    assert model.started == model.ended


def test_a_second_signal_ends_everything_at_once() -> None:
    model = ByteModel(pause=0.005)
    with served(model, grace=60) as server, asked(server, "/v1/completions", ENDLESS):
        until(lambda: model.tokens > 3)
        server.server.handle_exit(signal.SIGINT, None)
        until(lambda: server.engine.stopping)
        server.server.handle_exit(signal.SIGINT, None)
        until(lambda: model.ended == 1)
        assert model.tokens < 1000
