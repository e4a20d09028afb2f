"""The official client of OpenAI's API against this server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from support.http_service import MODEL, Served, served, until
from support.text_model import ByteModel

from openane.serving.guard import Guard

USER = [{"role": "user", "content": "hello \N{BALLOON}"}]
ANSWER = "You said: hello \N{BALLOON}"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(ByteModel(), guard=Guard(keys=("key",)), max_queue=1) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.url, api_key="key", max_retries=0, timeout=20) as made:
        yield made


def test_chat(client: Any) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=USER, temperature=0, max_completion_tokens=100)
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", ANSWER, "stop")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    again = client.chat.completions.create(model=MODEL, messages=[*USER, choice.message, *USER])
    assert again.choices[0].message.content == ANSWER


def test_streamed_chat(client: Any) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=USER, stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == ANSWER
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == len(ANSWER.encode()) + 1


def test_the_client_collects_a_stream(client: Any) -> None:
    with client.chat.completions.stream(model=MODEL, messages=USER, stop=["lo"]) as stream:
        assert stream.get_final_completion().choices[0].message.content == "You said: hel"


def test_completions(client: Any) -> None:
    answer = client.completions.create(model=MODEL, prompt=["one", "two"], max_tokens=5, seed=1, top_p=0.9)
    assert [choice.text for choice in answer.choices] == ["abcde", "abcde"]
    assert {choice.finish_reason for choice in answer.choices} == {"length"}


def test_choices_and_probabilities(client: Any) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=USER, n=2, logprobs=True, top_logprobs=3)
    assert [choice.message.content for choice in answer.choices] == [ANSWER, ANSWER]
    first = answer.choices[1].logprobs.content[0]
    assert (first.token, first.bytes, first.logprob, len(first.top_logprobs)) == ("Y", [89], -0.5, 3)
    choice = client.completions.create(model=MODEL, prompt="one", max_tokens=4, logprobs=2).choices[0]
    assert choice.logprobs.tokens == ["a", "b", "c", "d"]
    assert [len(each) for each in choice.logprobs.top_logprobs] == [2] * 4
    with client.chat.completions.stream(model=MODEL, messages=USER, logprobs=True) as stream:
        told = stream.get_final_completion().choices[0].logprobs.content
    assert len(told) == len(ANSWER.encode())


def test_streamed_completions(client: Any) -> None:
    chunks = list(client.completions.create(model=MODEL, prompt="one", max_tokens=5, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "abcde"
    assert chunks[-1].choices[0].finish_reason == "length"


def test_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "openane"


def test_a_stream_that_is_closed_stops_the_model(client: Any, server: Served) -> None:
    for chunk in client.completions.create(model=MODEL, prompt="x", max_tokens=4000, stream=True):
        assert chunk.choices[0].text
        break
    until(lambda: server.engine.held == 0)


def test_errors_have_the_client_s_types(client: Any, server: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="from 1 to 32") as caught:
        client.chat.completions.create(model=MODEL, messages=USER, n=33)
    assert caught.value.param == "n"
    with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'frob'"):
        client.chat.completions.create(model=MODEL, messages=USER, extra_body={"frob": 1})
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=USER)
    with (pytest.raises(openai.AuthenticationError),
          openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0) as stranger):
        stranger.models.list()
