"""A stream and the model it runs on: nothing changes the cache behind its back, and it gives the model free."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.language import RandomWeights
from support.language_reference import BERT, LLAMA

from openane.errors import ContextFull, FormatError, GenerationError, UnsupportedError
from openane.models import (
    Adapter,
    Buckets,
    GeneratedToken,
    LanguageModel,
    LanguageSettings,
    Options,
    Precision,
    Sampling,
    Slots,
    TextEncoder,
    load_adapter,
)
from openane.models.chat import Template

DEVICE = "simulator?arithmetic=fast"
PROMPT = list(range(5, 45))
CHANGES: dict[str, Callable[[LanguageModel], object]] = {
    "use": lambda model: model.use(None), "reset": LanguageModel.reset, "rewind": lambda model: model.rewind(1),
    "decode": lambda model: model.decode(3), "prefill": lambda model: model.prefill([3]),
    "score": lambda model: model.score([3]), "stream": lambda model: model.stream([3])}


@pytest.fixture(scope="module")
def model() -> Iterator[LanguageModel]:
    settings = LanguageSettings(Buckets((48,), (16,)), scores=True, slots=Slots(frozenset({"query"}), 4))
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, settings) as made:
        yield made


@pytest.fixture(scope="module")
def wanted(model: LanguageModel) -> list[int | None]:
    return numbers(model.stream(PROMPT, Options(6)))


def numbers(tokens: Iterator[GeneratedToken]) -> list[int | None]:
    return [token.number for token in tokens]


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_changes_the_cache_of_a_text_under_way(model: LanguageModel, wanted: list[int | None],
                                                       name: str) -> None:
    stream = model.stream(PROMPT, Options(6))
    found = []
    for token in stream:
        found.append(token.number)
        if token.finish is None:
            with pytest.raises(GenerationError, match="another text is under way"):
                CHANGES[name](model)
    assert found == wanted
    CHANGES[name](model)  # it has ended: the model is free


def test_a_step_in_one_thread_is_not_disturbed_by_another(model: LanguageModel) -> None:
    refused: list[Exception] = []

    def ask() -> bool:
        try:
            model.reset()
        except GenerationError as error:
            refused.append(error)
        return False

    model.reset()
    assert model.prefill(PROMPT, ask)
    assert len(refused) == 3
    assert model.tokens == tuple(PROMPT)


def test_streams_that_nobody_reads_give_the_model_free(model: LanguageModel, wanted: list[int | None]) -> None:
    for started in (False, True):
        stream: Any = model.stream(PROMPT, Options(6))
        if started:
            next(stream)
        stream.close()
        stream.close()
        assert next(stream, None) is None
        model.reset()
        held: list[Any] = [model.stream(PROMPT, Options(6))]
        held.append(held)  # a cycle: only the collector finds it
        del held
        gc.collect()
        assert numbers(model.stream(PROMPT, Options(6))) == wanted


def test_a_stream_read_and_closed_while_its_token_is_computed(model: LanguageModel) -> None:
    """`cancel` is asked in the midst of a step, as another thread would come."""
    met: list[str] = []

    def cancel() -> bool:
        with pytest.raises(GenerationError, match="computed already"):
            next(stream)
        stream.close()
        met.append("closed")
        return False

    model.reset()
    stream: Any = model.stream([5, 6], Options(4), cancel)
    assert next(stream).finish is None
    assert met == ["closed"] * 2
    assert list(stream) == []
    model.reset()  # it is free


def test_a_prompt_cancelled_in_the_midst_ends_the_text(model: LanguageModel) -> None:
    """Even if `cancel` says otherwise afterwards: half a prompt is continued by nobody."""
    asked = iter([False, True, False, False, False])
    model.reset()
    assert [token.finish for token in model.stream(PROMPT, Options(2), lambda: next(asked))] == ["cancelled"]
    assert model.tokens == tuple(PROMPT[:16])
    ended = threading.Event()
    assert model.prefill(PROMPT[16:], ended.is_set)
    ended.set()
    assert not model.prefill([5], ended.is_set)
    model.reset()


def test_what_leaves_no_room_is_refused_before_it_is_computed(model: LanguageModel) -> None:
    model.reset()
    steps = model.usage.steps
    with pytest.raises(ContextFull) as full:
        model.stream([5] * 49)
    assert (full.value.limit, full.value.asked) == (48, 49)
    assert model.usage.steps == steps
    assert [token.finish for token in model.stream([5] * 48, Options(9))][-1] in ("length", "stop")


@pytest.mark.parametrize("token", [3.0, "a", None, True, np.float32(3), [3]])
def test_tokens_are_whole_numbers(model: LanguageModel, token: Any) -> None:
    model.reset()
    for call in (lambda: model.stream([5, token]), lambda: model.prefill([token]), lambda: model.score([5, token]),
                 lambda: model.decode(token), lambda: model.generate([5, token])):
        with pytest.raises(GenerationError, match=r"whole numbers|all of one kind"):
            call()
    assert model.tokens == ()
    assert len(numbers(model.stream(np.array([5, 6]), Options(2)))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [
    {"max_tokens": 2.5}, {"max_tokens": 0}, {"max_tokens": True}, {"alternatives": 1.0}, {"alternatives": -1},
    {"max_tokens": None}, {"stop": ("",)}, {"stop": "END"}, {"stop": (3,)}])
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(GenerationError, match=next(iter(wrong))):
        Options(**wrong)


@pytest.mark.parametrize("wrong", [{"top_k": 2.5}, {"seed": 1.5}, {"temperature": "hot"}, {"top_p": None},
                                   {"temperature": float("inf")}, {"top_p": float("nan")}])
def test_sampling_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(GenerationError, match=f"{next(iter(wrong))} must be"):
        Sampling(**wrong)


def test_encoders_take_whole_numbers() -> None:
    with TextEncoder(BERT, RandomWeights(BERT), DEVICE, (16,)) as encoder:
        for wrong in ([3.0], ["a"], 5, None, [True], b"ab"):
            with pytest.raises(GenerationError, match=r"tokens are .*whole numbers"):
                encoder.encode(wrong)  # type: ignore[arg-type]
        with pytest.raises(GenerationError, match="segments are whole numbers"):
            encoder.encode([3], [0.5])  # type: ignore[list-item]
    with pytest.raises(GenerationError, match="lengths are whole numbers"):
        TextEncoder(BERT, RandomWeights(BERT), DEVICE, (16.0,))  # type: ignore[arg-type]


def test_choices_by_name() -> None:
    assert LanguageSettings(precision="int8").precision is Precision.INT8  # type: ignore[arg-type]
    for wrong in ({"precision": "int3"}, {"placement": "nobody"}, {"residence": 1}):
        with pytest.raises(UnsupportedError, match="is none there is"):
            LanguageSettings(**wrong)  # type: ignore[arg-type]
    for lengths in ((48.0,), ("48",)):
        with pytest.raises(GenerationError, match="whole numbers that ascend"):
            Buckets(lengths, ())  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="room for adapters"):
        Slots(frozenset({"query"}), 2.5)  # type: ignore[arg-type]


def test_messages_and_tokens_do_not_mix(model: LanguageModel) -> None:
    message = {"role": "user", "content": "the cat"}
    model.template = Template(lambda _: "", "a test")
    for mixed in ([message, 3], ["the cat", message], message, None, 3, b"cat"):
        with pytest.raises(GenerationError, match="all of one kind"):
            model.prompt_tokens(mixed)  # type: ignore[arg-type]
    model.template = None


def test_adapters_that_are_none(model: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such folder"):
        load_adapter(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"adapter_config\.json, found a folder without it"):
        load_adapter(str(tmp_path))
    large = np.full((4, 64), 1e6, np.float32)
    with pytest.raises(FormatError, match=r"layer 0, query .*fp16 holds"):
        model.use(Adapter({(0, "query"): (large, large.T)}))
