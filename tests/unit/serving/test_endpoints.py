"""Answers of the endpoints: whole, streamed, counted, stopped, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http_service import MODEL, Served
from support.text_model import ByteModel

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "grüße 🎈 東京"}]


def test_a_chat(server: Served) -> None:
    status, answer = server.chat("grüße 🎈")
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["choices"] == [{"index": 0, "message": {"role": "assistant", "content": "You said: grüße 🎈",
                                                          "refusal": None}, "logprobs": None, "finish_reason": "stop"}]
    prompt, completion = len("user: grüße 🎈\n".encode()), len("You said: grüße 🎈".encode()) + 1
    assert answer["usage"] == {"prompt_tokens": prompt, "completion_tokens": completion,
                               "total_tokens": prompt + completion}


def test_a_stream_is_the_same_text_and_no_character_is_torn(server: Served) -> None:
    events = server.events(CHAT, {"model": MODEL, "messages": USER, "stream": True,
                                  "stream_options": {"include_usage": True}})
    assert events.pop() == "[DONE]"
    usage = events.pop()
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len("You said: grüße 🎈 東京".encode()) + 1
    assert all(event["usage"] is None and event["object"] == "chat.completion.chunk" for event in events)
    assert len({event["id"] for event in [usage, *events]}) == 1
    choices = [event["choices"][0] for event in events]
    assert choices[0]["delta"]["role"] == "assistant"
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    pieces = [choice["delta"].get("content", "") for choice in choices]
    assert "".join(pieces) == "You said: grüße 🎈 東京"
    assert "🎈" in pieces


def test_a_stream_without_usage_says_nothing_of_it(server: Served) -> None:
    events = server.events(CHAT, {"model": MODEL, "messages": USER, "stream": True})
    assert all("usage" not in event for event in events[:-1])
    assert all(event["choices"] for event in events[:-1])


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_has_its_length(server: Served, stream: bool) -> None:
    asked = {"model": MODEL, "prompt": "hello", "max_tokens": 30, "stream": stream}
    expected = "abcdefghijklmnopqrstuvwxyzabcd"
    if stream:
        choices = [event["choices"][0] for event in server.events("/v1/completions", asked)[:-1]]
        text, reason = "".join(choice["text"] for choice in choices), choices[-1]["finish_reason"]
    else:
        answer = server.post("/v1/completions", asked)[1]
        assert answer["usage"]["completion_tokens"] == 30
        text, reason = answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]
    assert (text, reason) == (expected, "length")


def test_sixteen_tokens_where_no_length_is_given(server: Served) -> None:
    assert server.complete("hello")[1]["choices"][0]["text"] == "abcdefghijklmnop"


@pytest.mark.parametrize("prompt", [["one", "two", "three"], [[1, 2], [3, 4], [5]]])
def test_several_prompts_are_several_choices(server: Served, prompt: list[Any]) -> None:
    _, answer = server.complete(prompt, max_tokens=3)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [choice["text"] for choice in answer["choices"]] == ["abc"] * 3
    assert answer["usage"]["completion_tokens"] == 9


def test_a_prompt_of_tokens(server: Served) -> None:
    answer = server.complete(list(b"hello"), max_tokens=1)[1]
    assert answer["usage"]["prompt_tokens"] == 5


@pytest.mark.parametrize(("stop", "text"), [
    ("hij", "abcdefg"), (["xyz", "op"], "abcdefghijklmn"), (["cd", "bcde"], "ab"), (["cd", "bcd"], "a"),
    ("no", "abcdefghijklm"), ("ab", ""), (["pqr"], "abcdefghijklmnop")])
def test_stop_strings_over_tokens(server: Served, stop: object, text: str) -> None:
    asked = {"model": MODEL, "prompt": "hello", "stop": stop}
    choice = server.post("/v1/completions", asked)[1]["choices"][0]
    assert choice["text"] == text
    assert choice["finish_reason"] == ("length" if text.endswith("p") else "stop")
    streamed = server.events("/v1/completions", {**asked, "stream": True})[:-1]
    assert "".join(event["choices"][0]["text"] for event in streamed) == text


def test_a_stop_string_of_several_byte_characters(server: Served) -> None:
    assert server.chat("🎈🎈東京", stop="東")[1]["choices"][0]["message"]["content"] == "You said: 🎈🎈"


def test_sampling_reaches_the_model(server: Served, model: ByteModel) -> None:
    server.complete("hello", temperature=0.5, top_p=0.25, top_k=7, seed=-1, max_tokens=1)
    seen = model.seen[-1]
    assert (seen.temperature, seen.top_p, seen.top_k, seen.seed) == (0.5, 0.25, 7, 2**64 - 1)
    server.complete("hello", max_tokens=1, top_p=0)
    server.complete("hello", max_tokens=1, temperature=None)
    assert [each.temperature for each in model.seen[-2:]] == [0, 1]
    assert model.seen[-1].seed != model.seen[-2].seed


def test_what_clients_send_back_is_taken(server: Served) -> None:
    said = server.chat("hello")[1]["choices"][0]["message"]
    messages = [{"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]},
                {"role": "user", "content": "hello", "name": "ada"},
                {**said, "annotations": [], "audio": None, "tool_calls": None}, {"role": "user", "content": "again"}]
    status, answer = server.post(CHAT, {"model": MODEL, "messages": messages, "n": 1, "user": "ada", "tools": [],
                                        "logprobs": False, "presence_penalty": 0.0, "response_format": {"type": "text"},
                                        "store": False, "metadata": {}})
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "You said: again")
    assert answer["usage"]["prompt_tokens"] == len("system: be kind\nuser: hello\nassistant: You said: hello\n"
                                                   "user: again\n")


def test_models(server: Served) -> None:
    listed = json.loads(server.request("GET", "/v1/models")[2])
    assert [each["id"] for each in listed["data"]] == [MODEL]
    assert json.loads(server.request("GET", f"/v1/models/{MODEL}")[2]) == listed["data"][0]
    status, _, body = server.request("GET", "/v1/models/other/one")
    assert (status, json.loads(body)["error"]["code"]) == (404, "model_not_found")


def test_health(server: Served) -> None:
    status, _, body = server.request("GET", "/health")
    assert status == 200
    assert json.loads(body) == {"status": "ok", "model": MODEL, "device": "none", "running": 0, "waiting": 0,
                                "max_queue": 64}


REFUSED = [
    ({"n": 33}, "n", "from 1 to 32"), ({"n": 0}, "n", "from 1"), ({"logprobs": 1}, "logprobs", "a boolean"),
    ({"top_logprobs": 2}, "top_logprobs", "only allowed when 'logprobs'"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "from 0 to 20"),
    ({"temperature": 2.1}, "temperature", "from 0 to 2"), ({"temperature": "hot"}, "temperature", "a number"),
    ({"temperature": True}, "temperature", "a boolean"), ({"top_p": -0.1}, "top_p", "from 0 to 1"),
    ({"max_tokens": 0}, "max_tokens", "from 1"), ({"max_tokens": 1.5}, "max_tokens", "an integer"),
    ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "both"), ({"seed": 2**63}, "seed", "an integer"),
    ({"max_tokens": 4096}, "messages", "maximum context length is 4096"), ({"stop": ""}, "stop", "1 to 1024"),
    ({"stop": ["a"] * 5}, "stop", "at most 4"), ({"stop": [1]}, "stop[0]", "a string"),
    ({"stream": "yes"}, "stream", "a boolean"), ({"stream_options": {}}, "stream_options", "only allowed"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "Unknown"), ({"frob": 1}, "frob", "Unknown"),
    ({"prompt": "x"}, "prompt", "Unknown"), ({"tools": [{}]}, "tools", "not supported"),
    ({"response_format": {"type": "json_object"}}, "response_format", "free text"), ({"model": 1}, "model", "a string"),
    ({"model": None}, "model", "must provide"), ({"messages": []}, "messages", "empty"),
    ({"messages": "hi"}, "messages", "an array"), ({"messages": [1]}, "messages[0]", "an object"),
    ({"messages": None}, "messages", "Missing"), ({"messages": [{"role": "tool", "content": "x"}]},
                                                  "messages[0].role", "no tools"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "a string"),
    ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood", "Unknown"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type", "text"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "the user speaks last"),
]


@pytest.mark.parametrize(("fields", "parameter", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused_names_field_and_reason(server: Served, fields: dict[str, Any], parameter: str,
                                                words: str) -> None:
    status, answer = server.post(CHAT, {"model": MODEL, "messages": USER, **fields})
    assert status == 400, answer
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == parameter
    assert words in answer["error"]["message"]


@pytest.mark.parametrize("prompt", [None, [], [[]], 1, "", ["a", 1], [1.5], [300], [-1], [[1], "a"], ["a"] * 33])
def test_prompts_that_are_refused(server: Served, prompt: object) -> None:
    status, answer = server.complete(prompt)
    assert (status, answer["error"]["param"]) == (400, "prompt")


def test_a_stream_that_is_refused_is_no_stream(server: Served) -> None:
    assert server.chat("x", stream=True, n=33)[0] == 400


def test_another_model_is_not_found(server: Served) -> None:
    status, answer = server.chat("x", model="gpt-4o")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
