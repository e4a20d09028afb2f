"""Whole request bodies: what is asked for, checked before anything is queued.

Fields are treated as OpenAI's API treats them: an unknown one is refused by name, `null` is absent, and those that only
concern OpenAI's own service are taken and have no effect. What this server cannot do is refused with its reason unless
the field asks for nothing (`n` 1, `logprobs` false, `tools` []). `top_k` is an addition.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openane.models.chat import Message
from openane.models.sampling import Sampling
from openane.serving.fields import Body, boolean, integer, number, shown, stop_strings, text, wrong_type, wrong_value
from openane.serving.refusals import Refusal

COMPLETION_TOKENS = 16
"""What OpenAI's completions give where max_tokens is absent. A chat may fill the context."""
MOST_PROMPTS = 32
MOST_CHOICES = 32
MOST_LIKELY = 20
MOST_LIKELY_COMPLETION = 5
"""Alternatives told for a token."""
MOST_TOKENS = 1 << 31
SEEDS = 1 << 63

SHARED = {"model", "stream", "stream_options", "temperature", "top_p", "top_k", "seed", "stop", "max_tokens",
          "n", "logprobs"}
IGNORED = {"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
           "prompt_cache_retention", "parallel_tool_calls", "verbosity"}
"""Fields about OpenAI's service, or hints."""
NO_TOOLS = "tools and functions are not supported; only text is generated"
UNSUPPORTED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "best_of": ((1,), "answers are not chosen from; ask for several with n"),
    "echo": ((False,), "the prompt is not repeated in the answer"),
    "suffix": (("",), "text is only continued, not inserted"),
    "presence_penalty": ((0,), "penalties on tokens are not supported"),
    "frequency_penalty": ((0,), "penalties on tokens are not supported"),
    "logit_bias": (({},), "biases on tokens are not supported"),
    "tools": (([],), NO_TOOLS),
    "tool_choice": (("none", "auto"), NO_TOOLS),
    "functions": (([],), NO_TOOLS),
    "function_call": (("none", "auto"), NO_TOOLS),
    "response_format": (({"type": "text"},), "only free text is generated"),
    "modalities": ((["text"],), "only text is generated"),
    "audio": ((), "only text is generated"),
    "prediction": ((), "predicted outputs are not supported"),
    "reasoning_effort": (("none",), "reasoning is not separate from the answer"),
    "web_search_options": ((), "the web is not searched"),
}
"""Field to the values that ask for nothing, and why others are refused."""
CHAT_ONLY = {"messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "functions", "function_call",
             "response_format", "modalities", "audio", "prediction", "reasoning_effort", "web_search_options"}
COMPLETION_ONLY = {"prompt", "best_of", "echo", "suffix"}
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
EMPTY_IN_MESSAGES = {"refusal", "annotations", "audio", "function_call", "tool_calls", "tool_call_id"}
"""Fields of a message that answers carry and clients send back; only null or empty ones are taken."""

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


def document_of(body: bytes) -> dict[str, Any]:
    """The JSON object of a request body. Refusal for anything else, NaN and text that is no Unicode included."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()  # a lone surrogate has no UTF-8
    except RecursionError:
        raise Refusal("We could not parse the JSON body of your request: it is nested too deeply.") from None
    except ValueError as error:
        reason = "text holds a lone surrogate" if isinstance(error, UnicodeEncodeError) else f"{error}"
        raise Refusal(f"We could not parse the JSON body of your request: {reason}.") from None
    if not isinstance(document, dict):
        raise Refusal(f"The body of a request is a JSON object, not {shown(document)}.")
    return document


def chat_of(body: Body) -> Request:
    """A request to /v1/chat/completions."""
    _known(body, CHAT_ONLY)
    limit = integer(body, "max_completion_tokens", 1, MOST_TOKENS)
    if limit is None:
        limit = integer(body, "max_tokens", 1, MOST_TOKENS)
    elif body.get("max_tokens") is not None:
        raise Refusal("'max_tokens' and 'max_completion_tokens' cannot both be set.", parameter="max_tokens",
                      code="invalid_parameter_combination")
    wanted = integer(body, "top_logprobs", 0, MOST_LIKELY)
    likely = boolean(body, "logprobs")
    if wanted and not likely:
        raise Refusal("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
                      parameter="top_logprobs", code="invalid_parameter_combination")
    return Request(**_shared(body), limit=limit, count=_count(body, 1), alternatives=wanted or 0 if likely else None,
                   messages=_messages(body))


def completion_of(body: Body) -> Request:
    """A request to /v1/completions."""
    _known(body, COMPLETION_ONLY)
    limit = integer(body, "max_tokens", 1, MOST_TOKENS)
    prompts = _prompts(body)
    likely = None if body.get("logprobs") is False else integer(body, "logprobs", 0, MOST_LIKELY_COMPLETION)
    return Request(**_shared(body), limit=COMPLETION_TOKENS if limit is None else limit,
                   count=_count(body, len(prompts)), alternatives=likely, prompts=prompts)


def _count(body: Body, prompts: int) -> int:
    """How many choices for every prompt."""
    count = integer(body, "n", 1, MOST_CHOICES) or 1
    if count * prompts > MOST_CHOICES:
        raise Refusal(f"Invalid 'n': at most {MOST_CHOICES} choices are made, but got {count} for {prompts} prompts.",
                      parameter="n", code="invalid_value")
    return count


def _known(body: Body, own: set[str]) -> None:
    elsewhere = (CHAT_ONLY | COMPLETION_ONLY) - own
    for name, value in body.items():
        if name in elsewhere or not (name in SHARED or name in own or name in IGNORED or name in UNSUPPORTED):
            raise Refusal(f"Unknown parameter: {shown(name)}.", parameter=name, code="unknown_parameter")
        if name in UNSUPPORTED and value is not None:
            neutral, reason = UNSUPPORTED[name]
            if not any(type(value) is type(each) and value == each for each in neutral) and not _zero(value, neutral):
                raise Refusal(f"Unsupported value for {name!r}: {reason}.", parameter=name, code="unsupported_value")


def _zero(value: object, neutral: Sequence[object]) -> bool:
    """0.0 is as good as 0."""
    return isinstance(value, float) and value in neutral


def _shared(body: Body) -> dict[str, Any]:
    model = body.get("model")
    if model is None:
        raise Refusal("you must provide a model parameter", parameter="model", code="missing_required_parameter")
    stream = boolean(body, "stream")
    return {"model": text(model, "model"), "stream": stream, "usage": _wants_usage(body, stream),
            "sampling": _sampling(body), "stops": stop_strings(body)}


def _wants_usage(body: Body, stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise wrong_type("stream_options", "an object", options)
    if not stream:
        raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.",
                      parameter="stream_options", code="invalid_parameter_combination")
    for name in options:
        if name not in ("include_usage", "include_obfuscation"):
            raise Refusal(f"Unknown parameter: {shown(f'stream_options.{name}')}.", parameter=f"stream_options.{name}",
                          code="unknown_parameter")
        boolean(options, name)
    return boolean(options, "include_usage")


def _sampling(body: Body) -> Sampling:
    temperature, top_p = number(body, "temperature", 0, 2, 1), number(body, "top_p", 0, 1, 1)
    top_k, seed = integer(body, "top_k", 0, MOST_TOKENS), integer(body, "seed", -SEEDS, SEEDS - 1)
    if top_p == 0:  # nothing but the likeliest token
        temperature, top_p = 0.0, 1.0
    drawn = secrets.randbelow(SEEDS) if seed is None else seed % (2 * SEEDS)
    return Sampling(temperature=temperature, top_p=top_p, top_k=top_k or 0, seed=drawn)


def _messages(body: Body) -> tuple[Message, ...]:
    messages = body.get("messages")
    if messages is None:
        raise Refusal("Missing required parameter: 'messages'.", parameter="messages",
                      code="missing_required_parameter")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of objects", messages)
    if not messages:
        raise Refusal("Invalid 'messages': an empty array, but at least one message is needed.", parameter="messages",
                      code="empty_array")
    return tuple(_message(each, f"messages[{index}]") for index, each in enumerate(messages))


def _message(message: object, place: str) -> Message:
    if not isinstance(message, dict):
        raise wrong_type(place, "an object", message)
    role = text(message.get("role"), f"{place}.role")
    if role not in ROLES:
        rule = "no tools are called here" if role in ("tool", "function") else f"expected one of {', '.join(ROLES)}"
        raise wrong_value(f"{place}.role", rule, role)
    for name, value in message.items():
        if name in ("role", "content"):
            continue
        if name == "name" and value is not None:
            text(value, f"{place}.name")
        elif name in EMPTY_IN_MESSAGES and value not in (None, []):
            raise Refusal(f"Unsupported value for '{place}.{name}': {NO_TOOLS}.", parameter=f"{place}.{name}",
                          code="unsupported_value")
        elif name not in EMPTY_IN_MESSAGES and name != "name":
            raise Refusal(f"Unknown parameter: {shown(f'{place}.{name}')}.", parameter=f"{place}.{name}",
                          code="unknown_parameter")
    return {"role": ROLES[role], "content": _content(message.get("content"), f"{place}.content")}


def _content(content: object, place: str) -> str:
    """Text, or text in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise wrong_type(place, "a string or an array of text parts", content)
    parts = []
    for index, part in enumerate(content):
        name = f"{place}[{index}]"
        if not isinstance(part, dict):
            raise wrong_type(name, "an object", part)
        if part.get("type") != "text":
            raise wrong_value(f"{name}.type", "only parts of type 'text' are taken", part.get("type"))
        if unknown := sorted(part.keys() - {"type", "text"}):
            raise Refusal(f"Unknown parameter: {shown(f'{name}.{unknown[0]}')}.", parameter=f"{name}.{unknown[0]}",
                          code="unknown_parameter")
        parts.append(text(part.get("text"), f"{name}.text"))
    return "".join(parts)


def _prompts(body: Body) -> tuple[Prompt, ...]:
    """A text, several, a prompt of tokens, or several of those."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if prompt is None:
        raise Refusal("Missing required parameter: 'prompt'.", parameter="prompt", code="missing_required_parameter")
    if not isinstance(prompt, list):
        raise wrong_type("prompt", "a string or an array", prompt)
    if not prompt:
        raise Refusal("Invalid 'prompt': an empty array.", parameter="prompt", code="empty_array")
    if _is_tokens(prompt):
        return (tuple(prompt),)
    if len(prompt) > MOST_PROMPTS:
        raise Refusal(f"Invalid 'prompt': at most {MOST_PROMPTS} prompts are taken, but got {len(prompt)}.",
                      parameter="prompt", code="array_above_max_length")
    if all(isinstance(each, str) for each in prompt):
        return tuple(prompt)
    if all(isinstance(each, list) and _is_tokens(each) for each in prompt):
        return tuple(tuple(each) for each in prompt)
    raise wrong_type("prompt", "strings, tokens, or arrays of tokens, all of one kind", prompt)


def _is_tokens(values: Sequence[object]) -> bool:
    return bool(values) and all(type(each) is int for each in values)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
