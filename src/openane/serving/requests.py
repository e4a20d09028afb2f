"""Whole request bodies: what is asked for, checked before anything is queued.

Fields are treated as OpenAI's API treats them: an unknown one is refused by name, `null` is absent, and those that only
concern OpenAI's own service are taken and have no effect. What this server cannot do is refused with its reason unless
the field asks for nothing (`n` 1, `logprobs` false, `tools` []). `top_k` is an addition.
"""

from __future__ import annotations

import secrets
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, FailFast, Field, PlainValidator
from pydantic_core import from_json

from openane.models.chat import Message
from openane.models.sampling import Sampling
from openane.serving.fields import Body, array_of, checked, neutral, refusal, shown, within, wrong
from openane.serving.refusals import Refusal

COMPLETION_TOKENS = 16
"""What OpenAI's completions give where max_tokens is absent. A chat may fill the context."""
MOST_PROMPTS = 32
MOST_CHOICES = 32
MOST_LIKELY = 20
MOST_LIKELY_COMPLETION = 5
"""Alternatives told for a token."""
MOST_TOKENS = 1 << 31
MOST_STOPS = 4
LONGEST_STOP = 1024
"""Characters: what is compared after every token."""
SEEDS = 1 << 63
NO_TOOLS = "tools and functions are not supported; only text is generated"
NO_PENALTIES = "penalties on tokens are not supported"

Prompt = str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What both endpoints ask for. `limit` None: as many tokens as fit. `count`: choices for every prompt;
    `alternatives`: how many are told for every token (None: not even its own probability)."""

    model: str
    stream: bool
    usage: bool
    sampling: Sampling
    stops: tuple[str, ...]
    limit: int | None
    count: int = 1
    alternatives: int | None = None
    messages: tuple[Message, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    @property
    def place(self) -> str:
        """The field that holds the text."""
        return "messages" if self.messages else "prompt"


def _stop(text: str) -> str:
    if not 1 <= len(text) <= LONGEST_STOP:
        raise wrong("invalid_value", f"expected 1 to {LONGEST_STOP} characters")
    return text


def _role(role: str) -> str:
    roles = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
    if role in ("tool", "function"):
        raise wrong("invalid_value", "no tools are called here")
    if role not in roles:
        raise wrong("invalid_value", f"expected one of {', '.join(roles)}")
    return roles[role]


def _prompts(prompt: object) -> tuple[Prompt, ...]:
    """A text, several, a prompt of tokens, or several of those."""
    several: list[Any] = prompt if isinstance(prompt, list) and not _is_tokens(prompt) else [prompt]
    if not several:
        raise wrong("empty_array", "")
    if len(several) > MOST_PROMPTS:
        raise wrong("array_above_max_length", str(MOST_PROMPTS))
    if all(isinstance(each, str) for each in several):
        return tuple(several)
    if all(_is_tokens(each) for each in several):
        return tuple(tuple(each) for each in several)
    raise wrong("invalid_type", "a string, tokens, or an array of strings or of arrays of tokens")


def _is_tokens(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(type(each) is int for each in values)


Limit = Annotated[int, within("an integer", 1, MOST_TOKENS)]
NoTools = Annotated[Any, neutral(NO_TOOLS, [])]
NoChoiceOfTools = Annotated[Any, neutral(NO_TOOLS, "none", "auto")]
NoPenalty = Annotated[Any, neutral(NO_PENALTIES, 0)]


class MessagePart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(Body):
    """One of a conversation. What answers carry and clients send back is taken where it is empty."""

    role: Annotated[str, AfterValidator(_role)]
    content: Annotated[tuple[MessagePart, ...], FailFast(),
                       array_of(lambda text: {"type": "text", "text": text}, "text parts")] \
        = Field(None, validate_default=True)
    name: str | None = None
    refusal: NoTools = None
    annotations: NoTools = None
    audio: NoTools = None
    function_call: NoTools = None
    tool_calls: NoTools = None
    tool_call_id: NoTools = None


class StreamOptions(Body):
    """What a stream tells besides the text."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Asked(Body):
    """Fields of both endpoints; the last ones are about OpenAI's service, or hints, and have no effect."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, within("a number", 0, 2)] = 1
    top_p: Annotated[float, within("a number", 0, 1)] = 1
    top_k: Annotated[int, within("an integer", 0, MOST_TOKENS)] = 0
    seed: Annotated[int | None, within("an integer", -SEEDS, SEEDS - 1)] = None
    stop: Annotated[tuple[Annotated[str, AfterValidator(_stop)], ...], Field(max_length=MOST_STOPS), FailFast(),
                    array_of(str, "strings")] = ()
    max_tokens: Limit | None = None
    n: Annotated[int, within("an integer", 1, MOST_CHOICES)] = 1
    presence_penalty: NoPenalty = None
    frequency_penalty: NoPenalty = None
    logit_bias: Annotated[Any, neutral("biases on tokens are not supported", {})] = None
    user: Any = None
    store: Any = None
    metadata: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    parallel_tool_calls: Any = None
    verbosity: Any = None

    def request(self, texts: int, limit: int | None, **more: Any) -> Request:
        """What is asked for so many texts. Refusal for fields that do not go together."""
        if self.stream_options is not None and not self.stream:
            raise _combination("stream_options", "'stream_options' is only allowed when 'stream' is enabled.")
        if self.n * texts > MOST_CHOICES:
            raise refusal("n", "invalid_value", f"at most {MOST_CHOICES} choices for all {texts} prompts", self.n)
        temperature, top_p = (self.temperature, self.top_p) if self.top_p else (0.0, 1.0)  # 0: the likeliest token
        seed = secrets.randbelow(SEEDS) if self.seed is None else self.seed % (2 * SEEDS)
        return Request(self.model, self.stream, bool(self.stream_options and self.stream_options.include_usage),
                       Sampling(temperature=temperature, top_p=top_p, top_k=self.top_k, seed=seed), self.stop,
                       limit, self.n, **more)


class Chat(Asked):
    """The body of a request to /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], FailFast(), Field(min_length=1)]
    max_completion_tokens: Limit | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, within("an integer", 0, MOST_LIKELY)] = 0
    tools: NoTools = None
    tool_choice: NoChoiceOfTools = None
    functions: NoTools = None
    function_call: NoChoiceOfTools = None
    response_format: Annotated[Any, neutral("only free text is generated", {"type": "text"})] = None
    modalities: Annotated[Any, neutral("only text is generated", ["text"])] = None
    audio: Annotated[Any, neutral("only text is generated")] = None
    prediction: Annotated[Any, neutral("predicted outputs are not supported")] = None
    reasoning_effort: Annotated[Any, neutral("reasoning is not separate from the answer", "none")] = None
    web_search_options: Annotated[Any, neutral("the web is not searched")] = None


class Completion(Asked):
    """The body of a request to /v1/completions."""

    prompt: Annotated[tuple[Prompt, ...], PlainValidator(_prompts)]
    logprobs: Annotated[int | None, within("an integer", 0, MOST_LIKELY_COMPLETION),
                        BeforeValidator(lambda given: None if given is False else given)] = None
    best_of: Annotated[Any, neutral("answers are not chosen from; ask for several with n", 1)] = None
    echo: Annotated[Any, neutral("the prompt is not repeated in the answer", False)] = None
    suffix: Annotated[Any, neutral("text is only continued, not inserted", "")] = None


def document_of(body: bytes) -> dict[str, Any]:
    """The JSON object of a request body. Refusal for anything else, NaN and text that is no Unicode included."""
    try:
        document = from_json(body.removeprefix(BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(f"We could not parse the JSON body of your request: {error}.") from None
    if not isinstance(document, dict):
        raise Refusal(f"The body of a request is a JSON object, not {shown(document)}.")
    return document


def chat_of(body: dict[str, Any]) -> Request:
    """A request to /v1/chat/completions."""
    chat = checked(Chat, body)
    if chat.max_tokens is not None and chat.max_completion_tokens is not None:
        raise _combination("max_tokens", "'max_tokens' and 'max_completion_tokens' cannot both be set.")
    if chat.top_logprobs and not chat.logprobs:
        raise _combination("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is enabled.")
    messages = tuple({"role": each.role, "content": "".join(part.text for part in each.content)}
                     for each in chat.messages)
    return chat.request(1, chat.max_completion_tokens or chat.max_tokens, messages=messages,
                        alternatives=chat.top_logprobs if chat.logprobs else None)


def completion_of(body: dict[str, Any]) -> Request:
    """A request to /v1/completions."""
    completion = checked(Completion, body)
    return completion.request(len(completion.prompt), completion.max_tokens or COMPLETION_TOKENS,
                              prompts=completion.prompt, alternatives=completion.logprobs)


def _combination(name: str, reason: str) -> Refusal:
    return Refusal(reason, parameter=name, code="invalid_parameter_combination")
