"""Several choices for a prompt, and the probabilities of their tokens, whole and streamed."""

from __future__ import annotations

from typing import Any

from support.http_service import MODEL, Served
from support.text_model import ByteModel

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
TALK = {"model": MODEL, "messages": [{"role": "user", "content": "hé"}]}
SAID = "You said: hé"


def test_choices_draw_on_their_own(server: Served, model: ByteModel) -> None:
    answer = server.complete(["one", "two"], n=3, max_tokens=2, seed=5)[1]
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert {choice["text"] for choice in answer["choices"]} == {"ab"}
    assert [sampling.seed for sampling in model.seen[-6:]] == [5, 6, 7, 5, 6, 7]
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 12, "total_tokens": 18}
    answer = server.post(CHAT, {**TALK, "n": 2})[1]
    assert [choice["message"]["content"] for choice in answer["choices"]] == [SAID, SAID]
    assert answer["usage"]["prompt_tokens"] == len("user: hé\n".encode())


def test_choices_are_streamed_one_after_the_other(server: Served) -> None:
    events = server.events(CHAT, {**TALK, "n": 2, "stream": True})[:-1]
    for index in range(2):
        choices = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
        assert "".join(choice["delta"].get("content", "") for choice in choices) == SAID
        assert choices[-1]["finish_reason"] == "stop"


def test_there_are_no_more_choices_than_prompts_may_be(server: Served) -> None:
    status, answer = server.complete(["x"] * 5, n=7)
    assert (status, answer["error"]["param"]) == (400, "n")
    assert "at most 32 choices" in answer["error"]["message"]


def joined(events: list[Any]) -> list[Any]:
    """The tokens of a chat's stream."""
    told = [event["choices"][0]["logprobs"] for event in events[:-1]]
    return [token for each in told if each for token in each["content"]]


def test_tokens_of_a_chat_have_probabilities(server: Served) -> None:
    asked = {**TALK, "logprobs": True, "top_logprobs": 2}
    tokens = server.post(CHAT, asked)[1]["choices"][0]["logprobs"]["content"]
    assert len(tokens) == len(SAID.encode())  # the token that ends the text is no part of it
    assert tokens[0] == {"token": "Y", "logprob": -0.5, "bytes": [89], "top_logprobs": [
        {"token": "a", "logprob": -98.0, "bytes": [97]}, {"token": "b", "logprob": -99.0, "bytes": [98]}]}
    assert tokens[-1]["bytes"] is None  # half a character
    assert joined(server.events(CHAT, {**asked, "stream": True})) == tokens
    assert server.post(CHAT, TALK)[1]["choices"][0]["logprobs"] is None
    plain = server.post(CHAT, {**TALK, "logprobs": True})[1]["choices"][0]["logprobs"]["content"]
    assert [token["top_logprobs"] for token in plain] == [[]] * len(tokens)


def test_tokens_of_a_completion_have_probabilities(server: Served) -> None:
    asked = {"model": MODEL, "prompt": "x", "max_tokens": 3, "logprobs": 1}
    told = server.post(COMPLETION, asked)[1]["choices"][0]["logprobs"]
    assert told == {"tokens": ["a", "b", "c"], "token_logprobs": [-0.5] * 3, "top_logprobs": [{"a": -98.0}] * 3,
                    "text_offset": [0, 1, 2]}
    events = server.events(COMPLETION, {**asked, "stream": True})[:-1]
    parts = [event["choices"][0]["logprobs"] for event in events if event["choices"][0]["logprobs"]]
    assert [place for part in parts for place in part["text_offset"]] == [0, 1, 2]
    assert server.post(COMPLETION, {**asked, "logprobs": 0})[1]["choices"][0]["logprobs"]["top_logprobs"] == [{}] * 3
    assert server.post(COMPLETION, {**asked, "logprobs": 6})[0] == 400


def test_what_ends_a_text_is_not_among_its_tokens(server: Served) -> None:
    told = server.complete("x", max_tokens=9, logprobs=0, stop="de")[1]["choices"][0]
    assert (told["text"], told["logprobs"]["tokens"]) == ("abc", ["a", "b", "c"])
