"""Bodies, headers and bytes that make no sense: an error of the client's, never one of the server's."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.http_service import HOST, MODEL, Served, served, until
from support.text_model import ByteModel

from openane.serving.guard import BODY_LIMIT, Guard, is_loopback
from openane.serving.requests import MOST_STOPS, Chat, Completion

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
FEW = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(ByteModel()) as running:
        yield running


def checked(server: Served, path: str, body: bytes) -> int:
    """The status; an error must look like one of OpenAI's."""
    status, headers, answer = server.request("POST", path, body)
    assert status < 500
    if status >= 400:
        error = json.loads(answer)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "Traceback" not in error["message"]
        assert len(error["message"]) < 1000
        assert headers["content-type"] == "application/json"
    return status


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("text") | st.just("user"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "name"]) | st.text(), inner, max_size=4), max_leaves=12)
FIELDS = sorted(Chat.model_fields | Completion.model_fields)


@FEW
@given(path=st.sampled_from([CHAT, COMPLETION]), fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
       whole=st.booleans())
def test_any_values_of_known_fields(server: Served, path: str, fields: dict[str, Any], whole: bool) -> None:
    text = {"messages": [{"role": "user", "content": "x"}]} if path == CHAT else {"prompt": "x"}
    body = {"model": MODEL, "max_tokens": 2, **text, **fields} if whole else fields
    checked(server, path, json.dumps(body).encode())


@FEW
@given(messages=JSON)
def test_any_messages(server: Served, messages: Any) -> None:
    checked(server, CHAT, json.dumps({"model": MODEL, "max_tokens": 2, "messages": [messages]}).encode())


@FEW
@given(body=st.binary(max_size=200))
def test_any_bytes(server: Served, body: bytes) -> None:
    assert checked(server, CHAT, body) == 400


@FEW
@given(st.data())
def test_a_good_body_with_some_bytes_changed(server: Served, data: st.DataObject) -> None:
    body = bytearray(json.dumps({"model": MODEL, "max_tokens": 2, "temperature": 1.0, "stop": ["a", "b"], "seed": 3,
                                 "messages": [{"role": "user", "content": "hé"}]}).encode())
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    checked(server, CHAT, bytes(body))


@pytest.mark.parametrize("body", [
    b"", b"null", b"[]", b"{", b"[" * 100_000, b'{"a":' * 50_000, b'{"model": "bytes", "seed": 1' + b"0" * 5000 + b"}",
    b'{"model": "\\ud800"}', b'{"\\ud800": 1}', b'{"model": "bytes", "prompt": "x", "temperature": NaN}',
    b'{"model": "bytes", "prompt": "x", "temperature": 1e999}', b'\xff\xfe{\x00}\x00', b'\xef\xbb\xbf{}',
    b'{"model": "bytes", "prompt": "\\u0000", "n": 1e400}', b'{"model": "bytes", "prompt": "x", "stop": "\\udfff"}',
], ids=lambda body: repr(body[:24]))
@pytest.mark.parametrize("path", [CHAT, COMPLETION])
def test_bodies_that_are_hard_to_read(server: Served, path: str, body: bytes) -> None:
    assert checked(server, path, body) == 400


def test_a_byte_order_mark_is_no_part_of_a_body(server: Served) -> None:
    body = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 1}).encode()
    assert checked(server, COMPLETION, b"\xef\xbb\xbf" + body) == 200


def test_a_large_prompt_is_refused_for_its_tokens(server: Served) -> None:
    status, answer = server.complete("x" * (BODY_LIMIT - 100))
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert server.complete("x", stop=["y" * 1024] * MOST_STOPS)[0] == 200


def raw(server: Served, data: bytes) -> bytes:
    """All that comes back before the server closes the connection."""
    with socket.create_connection((HOST, server.port), timeout=10) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_declared_size_is_refused_before_anything_is_read(server: Served) -> None:
    answer = raw(server, HEAD + b"Content-Length: 1000000000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert b'"code":"request_too_large"' in answer


def test_an_undeclared_size_is_refused_when_it_is_reached(server: Served) -> None:
    chunk = b"%x\r\n" % (1 << 16) + b" " * (1 << 16) + b"\r\n"
    answer = raw(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (BODY_LIMIT // (1 << 16) + 1))
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_body_of_two_lengths_is_the_end_of_a_connection(server: Served) -> None:
    """One who goes by the length finds a second request behind it, one who goes by the chunks none."""
    body = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 1}).encode()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    second = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    kinds = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n" % len(chunks)
    for first, then in (kinds, kinds[::-1]):
        answer = raw(server, HEAD + first + then + b"\r\n" + chunks + second)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("data", [b"\x00" * 100, b"GET\r\n\r\n", b"POST / HTTP/x\r\n\r\n", HEAD * 2 + b"\r\n",
                                  HEAD + b"Content-Length: -1\r\n\r\n", HEAD + b"Content-Length: x\r\n\r\n"])
def test_what_is_no_http(server: Served, data: bytes) -> None:
    assert raw(server, data).startswith(b"HTTP/1.1 400 ")
    assert server.chat("x")[0] == 200


def test_a_body_that_does_not_come() -> None:
    with served(ByteModel(), guard=Guard(seconds=0.2)) as server:
        answer = raw(server, HEAD + b"Content-Length: 100\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_is_cut_off(server: Served) -> None:
    with socket.create_connection((HOST, server.port), timeout=10) as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    until(lambda: not server.server.server_state.tasks)
    assert server.engine.held == 0


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/", 404), ("GET", "/v1/embeddings", 404), ("GET", CHAT, 405), ("DELETE", "/v1/models", 405),
    ("POST", "/v1/%00%ff%0a", 404), ("PUT", "/health", 405), ("GET", "/health/", 404),
    ("GET", "/v1/models/%ed%a0%80", 404)])
def test_what_is_not_there(server: Served, method: str, path: str, status: int) -> None:
    found, _, body = server.request(method, path, b"{}")
    assert found == status
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_a_body_must_be_declared_as_json(server: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert server.post(COMPLETION, {}, **{"Content-Type": kind})[0] == 415
    assert server.post(COMPLETION, {"model": MODEL, "prompt": "x"},
                       **{"Content-Type": "Application/JSON; charset=utf-8"})[0] == 200


def test_another_host_is_refused_where_only_this_machine_is_served(server: Served) -> None:
    assert server.request("GET", "/v1/models", headers={"Host": "evil.example"})[0] == 403
    assert server.request("GET", "/v1/models", headers={"Host": "localhost:1"})[0] == 200
    with served(ByteModel(), guard=Guard(local=False)) as open_server:
        assert open_server.request("GET", "/v1/models", headers={"Host": "my.example"})[0] == 200


def test_a_host_that_is_none(server: Served) -> None:
    for path, status in ((b"/nowhere", 404), (b"/v1/models", 403)):
        answer = raw(server, b"GET " + path + b" HTTP/1.1\r\nHost: [\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(("host", "here"), [
    ("localhost", True), ("LOCALHOST:80", True), ("127.0.0.1:8000", True), ("127.1.2.3", True), ("[::1]:8000", True),
    ("::1", True), ("", False), ("localhost.evil", False), ("10.0.0.1", False), ("[::2]:1", False), ("[", False)])
def test_names_of_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_keys() -> None:
    with served(ByteModel(), guard=Guard(keys=("first", "zw\N{LATIN SMALL LETTER E WITH DIAERESIS}i"))) as server:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic first"},
                       {"Authorization": "Bearer"}, {"Authorization": "Bearer \xff"}):
            status, headers, body = server.request("GET", "/v1/models", headers=header)
            assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
            assert headers["www-authenticate"] == "Bearer"
        assert server.request("GET", "/v1/models", headers={"Authorization": "Bearer first"})[0] == 200
        assert server.request("GET", "/health")[0] == 200
