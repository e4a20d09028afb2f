"""Conversations as one text, in the form a model was trained on.

A directory's own template (`chat_template` of tokenizer_config.json, or chat_template.jinja) is used where jinja2 is
installed, in its sandbox. Without it, the forms of Qwen (`<|im_start|>`), Llama 3 (`<|start_header_id|>`) and Llama 2
(`[INST]`) are known, told apart by the tokens there are.

Only the form makes the tokens that divide turns. What a message says stays text, names of special tokens included: the
conversation is written a second time with those names broken, which tells the form's tokens from a message's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")
ENDS = ("<|im_end|>", "<|eot_id|>")
"""Tokens that end a turn wherever a template writes them; not every directory says so elsewhere."""
BREAKS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
"""Code points that are no characters, for texts to be broken with."""
Message = Mapping[str, str]
"""`role` and `content`."""


@dataclass(frozen=True, slots=True)
class Template:
    """`text` of a conversation, ready for the assistant's answer; `source` says where the form is from, `stops` are
    names of tokens that end an answer, `written` holds the names of others that divide turns, anywhere in it."""

    render: Callable[[Sequence[Message]], str]
    source: str
    stops: tuple[str, ...] = ()
    written: str = ""

    def text(self, messages: Sequence[Message]) -> str:
        """FormatError when a message has no known role or no text, or the template refuses them."""
        for message in messages:
            if message.get("role") not in ROLES or not isinstance(message.get("content"), str):
                raise FormatError("a message", expected=f"a role ({', '.join(ROLES)}) and a text",
                                  found=dict(message))
        if not messages:
            raise FormatError("a conversation", expected="at least one message", found="none")
        return self.render(messages)

    def tokens(self, messages: Sequence[Message], tokenizer: Tokenizer, most: int | None = None) -> list[int]:
        """The conversation's tokens. Those that divide its turns are the form's, whatever messages say: exactly what
        the library makes of the whole text where no message names one. Of a conversation of more than `most` tokens
        only the number matters: names are not looked at. Errors as for `text`."""
        text = self.text(messages)
        found = tokenizer.encode(text, special=False, names=True)
        if most is not None and len(found) > most:
            return found
        mark = _unused(text, *(message["content"] for message in messages))
        marks = _marks(tokenizer.names.values(), mark)
        broken = [{**message, "content": message["content"].translate(marks)} for message in messages]
        if all(one["content"] == other["content"] for one, other in zip(messages, broken, strict=True)):
            return found
        marked = self.text(broken)
        named = tokenizer.named(marked)
        dividing = [token for token, _, _ in named]
        guarded = tokenizer.guarded | self._own(tokenizer) | set(dividing)
        if [token for token in found if token in guarded] == dividing:
            return found
        tokens, place = [], 0
        for token, begin, end in named:
            tokens += [*tokenizer.ordinary_tokens(marked[place:begin].replace(mark, ""), guarded), token]
            place = end
        return tokens + tokenizer.ordinary_tokens(marked[place:].replace(mark, ""), guarded)

    def _own(self, tokenizer: Tokenizer) -> set[int]:
        """The tokens by which the form divides and ends turns."""
        return {token for token, name in tokenizer.names.items() if name in self.stops or name in self.written}


def _unused(*texts: str) -> str:
    """A code point that is no character, and that no text holds. FormatError when they hold all."""
    for mark in BREAKS:
        if not any(mark in text for text in texts):
            return mark
    raise FormatError("a conversation", expected="text", found="every code point from U+FDD0 to U+FDEF")


def _marks(names: Iterable[str], mark: str) -> dict[int, str]:
    """For `str.translate`: marks after what may begin a name and before what may end one, so that none is whole."""
    whole = [name for name in names if len(name) > 1]
    begins = {name[0] for name in whole if not name[0].isspace()}
    ends = {name[-1] for name in whole if not name[-1].isspace()}
    return {ord(letter): f"{mark if letter in ends else ''}{letter}{mark if letter in begins else ''}"
            for letter in begins | ends}


def of_folder(folder: Path, tokenizer: Tokenizer) -> Template | None:
    """The template of a model's directory; None when it is not known how it talks."""
    own = _own(folder)
    if own is not None:
        try:
            ends = [own[1].get("eos_token"), *(name for name in ENDS if name in own[0])]
            return Template(_jinja(*own), "the model's own template", tuple(filter(None, dict.fromkeys(ends))), own[0])
        except ImportError:
            pass
    return _known(tokenizer)


def _known(tokenizer: Tokenizer) -> Template | None:
    if tokenizer.token("<|im_start|>") is not None:
        return Template(_qwen, "the form of Qwen", ("<|im_end|>",))
    if tokenizer.token("<|start_header_id|>") is not None:
        start = "" if tokenizer.token("<|begin_of_text|>") is None else "<|begin_of_text|>"
        return Template(lambda messages: start + _llama3(messages), "the form of Llama 3", ("<|eot_id|>",))
    if tokenizer.token("[INST]") is not None:
        start = "" if tokenizer.token("<s>") is None or tokenizer.start is not None else "<s>"
        return Template(lambda messages: start + _llama2(messages), "the form of Llama 2", ("</s>",))
    return None


def _qwen(messages: Sequence[Message]) -> str:
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"


def _llama3(messages: Sequence[Message]) -> str:
    turns = "".join(f"<|start_header_id|>{m['role']}<|end_header_id|>\n\n{m['content'].strip()}<|eot_id|>"
                    for m in messages)
    return f"{turns}<|start_header_id|>assistant<|end_header_id|>\n\n"


def _llama2(messages: Sequence[Message]) -> str:
    text, system = "", ""
    for message in messages:
        if message["role"] == "system":
            system = f"<<SYS>>\n{message['content']}\n<</SYS>>\n\n"
        elif message["role"] == "user":
            text += f"[INST] {system}{message['content'].strip()} [/INST]"
            system = ""
        else:
            text += f" {message['content'].strip()} </s>"
    return text


def _own(folder: Path) -> tuple[str, dict[str, str]] | None:
    """The directory's template, and the names of special tokens it may use."""
    settings = _document(folder / "tokenizer_config.json")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name
        template = next((each.get("template") for each in template
                         if isinstance(each, dict) and each.get("name") == "default"), None)
    if (folder / "chat_template.jinja").is_file():
        try:
            template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        except ValueError:
            raise FormatError("chat_template.jinja", expected="text in UTF-8", found="other bytes") from None
    if not isinstance(template, str):
        return None
    names = {key: value.get("content") if isinstance(value, dict) else value for key, value in settings.items()
             if key.endswith("_token")}
    return template, {key: value for key, value in names.items() if isinstance(value, str)}


def _document(file: Path) -> dict[str, Any]:
    """A JSON object of a file; empty where there is none."""
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise FormatError(file.name, expected="JSON", found="something else") from None
    return found if isinstance(found, dict) else {}


def _jinja(template: str, names: Mapping[str, Any]) -> Callable[[Sequence[Message]], str]:
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = _json
    given = {"tools": None, "documents": None, **names, "add_generation_prompt": True, "raise_exception": refuse,
             "strftime_now": lambda form: datetime.now().strftime(form)}
    try:
        compiled = environment.from_string(template)
    except (TemplateError, RecursionError) as error:
        raise FormatError(f"the chat template cannot be read: {error}") from None

    def render(messages: Sequence[Message]) -> str:
        try:
            text: str = compiled.render(messages=[dict(message) for message in messages], **given)
        except Exception as error:  # a template's own mistakes are Python's exceptions
            raise UnsupportedError("chat template", f"refuses the conversation: {error}") from None
        return text

    return render


def _json(value: object, indent: int | None = None) -> str:
    """As templates expect it, and not escaped for HTML as Jinja's own filter does."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
