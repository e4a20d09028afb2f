"""The page of the Python interface: every public name of `openane`, its signature and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import openane

HEAD = """# Python

`import openane as ane`. Names are imported when they are first used; importing the package needs nothing but Python.
"""


def page() -> str:
    """The page in Markdown."""
    parts = [HEAD]
    for name in openane.__all__:
        value = getattr(openane, name)
        parts += [f"\n## {name}\n", *_described(name, value)]
    return "\n".join(parts)


def _described(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, Exception):
        yield _document(value)
        return
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield _document(value)
    if isinstance(value, type):
        for method, function in _methods(value):
            yield f"\n### {name}.{method}\n"
            if isinstance(function, property):
                yield _document(function)
            else:
                yield f"```python\n{_signature(method, function)}\n```\n"
                yield _document(function)


def _methods(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself states or inherits from ours, with a docstring."""
    for name, member in inspect.getmembers(value):
        raw = inspect.getattr_static(value, name)
        shown = raw if isinstance(raw, property) else member
        if not name.startswith("_") and (callable(member) or isinstance(raw, property)) and shown.__doc__:
            yield name, shown


def _signature(name: str, value: Any) -> str:
    """How it is called, a parameter to a line where it is long."""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    text = f"{name}{signature}".replace("'", "")
    if len(text) <= 100:
        return text
    inner = "".join(f"    {parameter},\n" for parameter in signature.parameters.values()).replace("'", "")
    returns = "" if signature.return_annotation is inspect.Signature.empty else f" -> {signature.return_annotation}"
    return f"{name}(\n{inner}){returns}".replace("'", "")


def _document(value: Any) -> str:
    return (inspect.getdoc(value) or "").replace("<", "&lt;") + "\n"
