"""JSON files of a model's directory, which others wrote: objects of a bounded size, or a message that says what is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openane.errors import FormatError

PREPROCESSOR = "preprocessor_config.json"
"""How images and sounds are prepared."""
LONGEST = 1 << 24
"""Bytes of a document; Whisper's generation_config.json has some ten thousand, vocabularies have more."""


def json_object(folder: Path, name: str, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object in a file of the directory; `missing` where there is no such file. FormatError when there is none, or
    it is no object."""
    found = optional(folder, name)
    if found is None and not (folder / name).is_file():
        if missing is not None:
            return missing
        raise FormatError(f"{folder} is no model's directory", expected=name, found="none")
    if not isinstance(found, dict):
        raise FormatError(name, expected="an object", found=type(found).__name__)
    return found


def optional(folder: Path, name: str) -> Any:
    """What a file of the directory holds, None where it is not there. FormatError when it is no JSON."""
    file = folder / name
    if not file.is_file():
        return None
    if file.stat().st_size > LONGEST:
        raise FormatError(name, expected=f"at most {LONGEST} bytes", found=file.stat().st_size)
    try:
        return json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise FormatError(name, expected="JSON", found="something else") from None
