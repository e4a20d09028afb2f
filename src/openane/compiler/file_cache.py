"""Models compiled before, found by the bytes of their file: an entry of the cache names the entry of the model.

Nothing is imported, and no graph is made, of a file that is the same byte for byte and is compiled with the same
options. The graph is read from the file when somebody asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from openane.cache import Cache, source_digest
from openane.compiler.artifact.bundle import read_model
from openane.compiler.artifact.cache_program import read_cached
from openane.compiler.cache import OTHER, ROOMS
from openane.compiler.saved_model import Model
from openane.errors import AneError
from openane.formats.mapping import map_file
from openane.graph import Graph
from openane.version import __version__

NAMED = "model.json"
"""The file of an entry that names another."""
ELSEWHERE = b"location"
"""What an ONNX file says where data of tensors lies in a file beside it."""
PACKAGES = ("onnx", "protobuf")
"""What reads the bytes of a model besides this package."""


def file_key(path: Path, said: object) -> str | None:
    """A digest of a file's bytes, of what is `said` about compiling it, and of all that reads and compiles it, in
    hexadecimal. None where the model may depend on more than these bytes: no ONNX file, or one with data elsewhere."""
    if path.suffix != ".onnx":
        return None
    try:
        data = map_file(path)
    except (OSError, ValueError):
        return None
    text = repr((said, __version__, source_digest((*ROOMS, "importers")), np.__version__,
                 [_version(name) for name in PACKAGES])).encode(errors="surrogatepass")
    digest = hashlib.sha256(b"%d:" % len(text) + text)
    digest.update(data)
    return digest.hexdigest()


def remember(path: Path, key: str, model: str, name: str) -> None:
    """Says under the file's `key` that its model is the entry `model`, made of a graph called `name`. A file with data
    elsewhere is not remembered."""
    try:
        data = map_file(path)
        if data.obj is not None and _holds(data, ELSEWHERE):
            return
        Cache().put(key, {NAMED: json.dumps({"model": model, "name": name}).encode()}, f"{path.name} as a file")
    except (OSError, ValueError):
        return


def recalled(key: str, source: Callable[[], Graph]) -> Model | None:
    """The model that is remembered under a file's `key`, or None; `source` reads its graph."""
    try:
        kept = Cache()
    except OSError:
        return None
    entry = kept.get(key)
    if entry is None:
        return None
    try:
        stated = json.loads(entry[NAMED])
        files = kept.mapped(str(stated["model"]))
        if files is None:
            return None
        own = {} if OTHER in files else {str(stated["name"]): source}
        found = read_model(lambda name: files[name] if name.startswith("programs/") else bytes(files[name]),
                           own, read_cached)
    except (AneError, KeyError, TypeError, ValueError):
        return None
    return Model.of(found)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _holds(data: memoryview, text: bytes) -> bool:
    """Whether the text is somewhere in mapped bytes."""
    held = data.obj
    find = getattr(held, "find", None)
    return find is None or find(text) >= 0
