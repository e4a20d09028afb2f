"""What one client may have, and how many clients, slow ones among them, there may be."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.http_service import HOST, MODEL, Served, served, until
from support.text_model import ByteModel

from openane.serving.clients import MANY, WINDOW, ClientLimits, Clients, client_of
from openane.serving.connection import ConnectionLimits
from openane.serving.guard import Guard
from openane.serving.refusals import Refusal

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connected(server: Served) -> socket.socket:
    return socket.create_connection((HOST, server.port), timeout=10)


def rest(connection: socket.socket) -> bytes:
    """All that comes before the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def refused(answer: bytes, status: int, code: str) -> dict[str, str]:
    """The headers of a refusal, which is an error as OpenAI's API has them."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first.startswith(f"HTTP/1.1 {status} "), answer
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert (headers["content-type"], int(headers["content-length"])) == ("application/json", len(body))
    error = json.loads(body)["error"]
    assert (set(error), error["code"]) == ({"message", "type", "param", "code"}, code)
    return headers


def test_one_connection_too_many_is_told_when_to_come_again() -> None:
    with served(ByteModel(), connections=ConnectionLimits(2)) as server, contextlib.ExitStack() as open_ones:
        until(lambda: not server.server.server_state.connections)
        for _ in range(2):
            open_ones.enter_context(connected(server))
        until(lambda: len(server.server.server_state.connections) == 2)
        with connected(server) as third:
            headers = refused(rest(third), 503, "too_many_connections")
            assert int(headers["retry-after"]) >= 1
            assert headers["connection"] == "close"
        open_ones.close()
        until(lambda: not server.server.server_state.connections)
        assert server.chat("hi")[0] == 200


def test_a_client_has_its_share_of_connections() -> None:
    with served(ByteModel(), connections=ConnectionLimits(100, each=1)) as server, connected(server) as first:
        until(lambda: len(server.server.server_state.connections) == 1)
        with connected(server) as second:
            assert "retry-after" in refused(rest(second), 429, "client_connections")
        first.sendall(MODELS)
        assert first.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("before", [b"", MODELS])
@pytest.mark.parametrize("begun", [False, True])
def test_a_head_that_comes_a_byte_at_a_time_ends_its_connection(before: bytes, begun: bool,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a first request, and of one after another: what is sent meanwhile gives no more time."""
    monkeypatch.setattr("openane.serving.connection.IDLE_SECONDS", 0.4)
    with served(ByteModel()) as server, connected(server) as slow:
        slow.sendall(before)
        told = b""
        while before and b"}]}" not in told:
            told += slow.recv(1 << 16)
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in HEAD if begun else b"":
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
        answer = rest(slow)
        assert time.monotonic() - begin < 5
        if begun:
            assert answer.startswith(b"HTTP/1.1 408 ") or not answer  # it may be lost to what was sent meanwhile
        else:
            assert answer == b""
        until(lambda: not server.server.server_state.connections)


def test_a_head_that_stops_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.serving.connection.IDLE_SECONDS", 0.2)
    with served(ByteModel()) as server, connected(server) as slow:
        slow.sendall(HEAD)
        refused(rest(slow), 408, "timeout")


def test_an_answer_takes_longer_than_a_head_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.serving.connection.IDLE_SECONDS", 0.1)
    with served(ByteModel(pause=0.02)) as server:
        assert server.complete("x", max_tokens=20)[0] == 200


def test_heads_without_end_are_refused() -> None:
    with served(ByteModel()) as server, connected(server) as endless:
        with contextlib.suppress(OSError):
            endless.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * (1 << 17))
        refused(rest(endless), 400, "bad_request")


def test_garbage_behind_a_request_does_not_tear_its_answer() -> None:
    body = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 3}).encode()
    with served(ByteModel(pause=0.02)) as server, connected(server) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"\0" * 100)
        answer, _, after = rest(client).rpartition(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"] == "abc"
        refused(b"HTTP/1.1 400 " + after, 400, "bad_request")
        assert server.chat("hi")[0] == 200


def test_requests_of_one_client_leave_room_for_others() -> None:
    model = ByteModel()
    with served(model, guard=Guard(keys=("first", "second")), limits=ClientLimits(requests=2)) as server, \
            ThreadPoolExecutor(3) as clients:
        model.hold.clear()

        def ask(key: str) -> tuple[int, Any]:
            return server.post("/v1/completions", {"model": MODEL, "prompt": "x", "max_tokens": 1},
                               Authorization=f"Bearer {key}")

        held = [clients.submit(ask, "first") for _ in range(2)]
        until(lambda: server.engine.held == 2)
        status, answer = ask("first")
        assert (status, answer["error"]["code"]) == (429, "client_requests")
        assert answer["error"]["type"] == "rate_limit_error"
        other = clients.submit(ask, "second")
        until(lambda: server.engine.held == 3)
        model.hold.set()
        assert [each.result()[0] for each in (*held, other)] == [200] * 3
        until(lambda: not server.engine.held)
        assert ask("first")[0] == 200


def test_refused_requests_do_not_count() -> None:
    with served(ByteModel(), limits=ClientLimits(requests=1)) as server:
        for _ in range(3):
            assert server.complete("x" * 5000)[0] == 400
            assert server.complete([999])[0] == 400
        assert server.chat("hi")[0] == 200


def test_time_of_the_engine_is_limited_for_each_client() -> None:
    with served(ByteModel(pause=0.01), limits=ClientLimits(seconds=0.05)) as server:
        assert server.complete("x", max_tokens=20)[0] == 200
        until(lambda: not server.engine.held)
        status, headers, body = server.request("POST", "/v1/completions", json.dumps(
            {"model": MODEL, "prompt": "x"}).encode())
        assert (status, json.loads(body)["error"]["code"]) == (429, "client_time")
        assert int(headers["retry-after"]) >= 1


def test_time_is_forgiven() -> None:
    now = [0.0]
    clients = Clients(ClientLimits(seconds=10), lambda: now[0])
    clients.enter("a")
    clients.leave("a", 15)
    with pytest.raises(Refusal) as refusal:
        clients.require("a", 1)
    assert refusal.value.retry_after == WINDOW / 2 + 1
    clients.require("b", 1)
    now[0] += refusal.value.retry_after
    clients.require("a", 1)


def test_clients_are_forgotten() -> None:
    now = [0.0]
    clients = Clients(ClientLimits(requests=1, seconds=1), lambda: now[0])
    for number in range(3 * MANY):
        clients.enter(str(number))
        clients.leave(str(number), 0.5)
        now[0] += 1
    assert len(clients._accounts) <= MANY
    unlimited = Clients()
    for number in range(10):
        unlimited.enter(str(number))
        unlimited.require(str(number), 1)
        unlimited.leave(str(number), 5)
    assert not unlimited._accounts


@pytest.mark.parametrize(("address", "client"), [
    ("10.0.0.1", "10.0.0.1"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
    ("fe80::1%eth0", "fe80::/64"), ("not an address", "not an address"), ("", "")])
def test_whose_an_address_is(address: str, client: str) -> None:
    assert client_of(address) == client


def test_many_slow_clients_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.serving.connection.IDLE_SECONDS", 0.3)
    with served(ByteModel(), connections=ConnectionLimits(20)) as server, contextlib.ExitStack() as slow:
        for _ in range(20):
            slow.enter_context(connected(server)).sendall(HEAD[:20])
        until(lambda: server.chat("hi")[0] == 200)


def test_the_size_of_a_body_is_configured() -> None:
    with served(ByteModel(), guard=Guard(limit=100)) as server:
        assert server.complete("x" * 100)[0] == 413
        assert server.request("GET", "/health")[0] == 200


def test_a_server_that_stops_says_when_to_come_again() -> None:
    model = ByteModel()
    with served(model) as server:
        model.hold.clear()
        found: list[tuple[int, dict[str, str], bytes]] = []
        body = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 1}).encode()
        asking = [threading.Thread(target=lambda: found.append(server.request("POST", "/v1/completions", body)))
                  for _ in range(2)]
        for each in asking:
            each.start()
        until(lambda: server.engine.held == 2)
        server.server.stop()
        until(lambda: found)
        model.hold.set()
        for each in asking:
            each.join(20)
    status, headers, _ = next(each for each in found if each[0] != 200)
    assert (status, "retry-after" in headers) == (503, True)
