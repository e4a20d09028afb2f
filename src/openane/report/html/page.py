"""The page of a report: markup, styles and scripts of this package in one file, with the data in it as JSON.

Nothing is fetched and nothing can be: the page's security policy allows its own script and style, known by their
hashes, and no connection. The data is inert (a script element of another type) and its <, > and & are escaped, so that
no name from a file ends it; the script puts text on the page only as text.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from openane.report.html.compare import DATA_ID
from openane.report.targets import TargetResult, targets_document
from openane.version import __version__
from openane.wording import line_text, message_text

SCRIPTS = ("base", "task", "table", "summary", "view", "graph", "timeline", "memory", "detail", "health", "frame",
           "page")
"""Files of the script of a profile's page, in order."""
TARGETS = ("base", "table", "frame", "targets")
"""The same of the page of several targets."""
CHECKED = ("base", "table", "frame", "checked")
"""The same of the page of a check."""
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(data: Mapping[str, Any]) -> str:
    """The whole file of a profile, UTF-8 text."""
    return _assembled(data, SCRIPTS, f"{data['profile']['name']} on {data['profile']['chip']}", "tasks")


def targets_page(model: str, results: Sequence[TargetResult]) -> str:
    """The whole file of what several targets make of the model called `model`, UTF-8 text."""
    data = {"openane": __version__, "model": model, **targets_document(results)}
    return _assembled(data, TARGETS, f"{model} for {len(results)} targets", "operations")


def checked_page(found: Mapping[str, Any]) -> str:
    """The whole file of a check (checking.document), UTF-8 text."""
    return _assembled({"openane": __version__, **found}, CHECKED, f"{found['name']} beside fp32", "operations")


def _assembled(data: Mapping[str, Any], scripts: Sequence[str], title: str, table: str) -> str:
    """The file of the parts; `table` is the section that one may skip to."""
    style = _part("page.css")
    script = "'use strict';\n(() => {\n" + "\n".join(_part(f"{name}.js") for name in scripts) + "\n})();\n"
    policy = (f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
              "form-action 'none'")
    text = _part("page.html").replace("{table}", table)
    marks = {"{policy}": policy, "{title}": escape(line_text(title)), "{style}": style, "{id}": DATA_ID,
             "{data}": embedded(data), "{script}": script}
    done, rest = "", text
    for mark, value in marks.items():  # each stands once, in this order: what is filled in is never looked at again
        before, _, rest = rest.partition(mark)
        done += before + value
    return done + rest


def embedded(data: Mapping[str, Any]) -> str:
    """The data as JSON that no parser of HTML takes for markup, its texts as wording.message_text has them. Infinities
    and NaN become null."""
    text = json.dumps(_shown(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, spelled in UNSAFE.items():
        text = text.replace(character, spelled)
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    if isinstance(value, str):
        return message_text(value)
    if isinstance(value, Mapping):
        return {message_text(str(key)): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value


def _part(name: str) -> str:
    return (files("openane.report") / "html" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
