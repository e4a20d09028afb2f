"""Conversations as one text, in the form a model was trained on.

A directory's own template (`chat_template` of tokenizer_config.json, or chat_template.jinja) is used where jinja2 is
installed, in its sandbox. Without it, the forms of Qwen (`<|im_start|>`), Llama 3 (`<|start_header_id|>`) and Llama 2
(`[INST]`) are known, told apart by the tokens there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")
Message = Mapping[str, str]
"""`role` and `content`."""


@dataclass(frozen=True, slots=True)
class Template:
    """`text` of a conversation, ready for the assistant's answer; `source` says where the form is from, `stops` are
    names of tokens that end an answer."""

    render: Callable[[Sequence[Message]], str]
    source: str
    stops: tuple[str, ...] = ()

    def text(self, messages: Sequence[Message]) -> str:
        """FormatError when a message has no known role or no text, or the template refuses them."""
        for message in messages:
            if message.get("role") not in ROLES or not isinstance(message.get("content"), str):
                raise FormatError("a message", expected=f"a role ({', '.join(ROLES)}) and a text",
                                  found=dict(message))
        if not messages:
            raise FormatError("a conversation", expected="at least one message", found="none")
        return self.render(messages)


def of_folder(folder: Path, tokenizer: Tokenizer) -> Template | None:
    """The template of a model's directory; None when it is not known how it talks."""
    own = _own(folder)
    if own is not None:
        try:
            return Template(_jinja(*own), "the model's own template")
        except ImportError:
            pass
    return _known(tokenizer)


def _known(tokenizer: Tokenizer) -> Template | None:
    if tokenizer.token("<|im_start|>") is not None:
        return Template(_qwen, "the form of Qwen", ("<|im_end|>",))
    if tokenizer.token("<|start_header_id|>") is not None:
        return Template(_llama3, "the form of Llama 3", ("<|eot_id|>",))
    if tokenizer.token("[INST]") is not None:
        return Template(_llama2, "the form of Llama 2", ("</s>",))
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


def _own(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """The directory's template and the names of special tokens it may use."""
    settings: dict[str, Any] = {}
    file = folder / "tokenizer_config.json"
    if file.is_file():
        try:
            settings = json.loads(file.read_text())
        except ValueError:
            raise FormatError(file.name, expected="JSON", found="something else") from None
    template = settings.get("chat_template") if isinstance(settings, dict) else None
    if isinstance(template, list):  # several by name
        template = next((t.get("template") for t in template if t.get("name") == "default"), None)
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text()
    if not isinstance(template, str):
        return None
    return template, {key: value.get("content") if isinstance(value, dict) else value
                      for key, value in settings.items() if key.endswith("_token")}


def _jinja(template: str, names: Mapping[str, Any]) -> Callable[[Sequence[Message]], str]:
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    try:
        compiled = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    except TemplateError as error:
        raise FormatError(f"the chat template cannot be read: {error}") from None

    def render(messages: Sequence[Message]) -> str:
        try:
            text: str = compiled.render(messages=list(messages), add_generation_prompt=True, raise_exception=refuse,
                                        **names)
        except TemplateError as error:
            raise UnsupportedError("chat template", f"refuses the conversation: {error}") from None
        return text

    return render
