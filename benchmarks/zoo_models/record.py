"""What became of every model when it was tried last, a line of JSON for each, beside the page that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Document = dict[str, Any]
RECORD = Path(__file__).parent / "results.jsonl"
KEPT = ("model", "verdict", "ran_on", "tasks", "host", "error", "half_error", "rescaled", "message")
"""What the page shows, of all that a trial says; and `seconds` of loading and compiling."""
SHOWN = ("load", "compile")


def kept(file: Path) -> dict[str, Document]:
    """The results of earlier runs by model, the last of each."""
    lines = file.read_text().splitlines() if file.exists() else ()
    return {document["model"]: document for document in map(json.loads, lines)}


def merged(record: Mapping[str, Document], found: Iterable[Document], order: Sequence[str]) -> list[Document]:
    """The results of the record, and those found in place of older ones, of the models in `order` and in that. What
    could not be built here says nothing of a model."""
    new = {document["model"]: document for document in found if document["verdict"] != "unbuilt"}
    every = {**record, **new}
    return [_shown(every[model]) for model in order if model in every]


def write_record(file: Path, record: Iterable[Mapping[str, Any]]) -> None:
    """Writes results, a line each."""
    file.write_text("".join(json.dumps(document) + "\n" for document in record))


def _shown(document: Mapping[str, Any]) -> Document:
    shown = {name: _short(document[name]) for name in KEPT if name in document}
    seconds = document.get("seconds", {})
    return shown | {"seconds": {name: round(seconds[name], 1) for name in SHOWN if name in seconds}}


def _short(value: Any) -> Any:
    """A number in three digits; anything else as it is."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
