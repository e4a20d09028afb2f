"""Where the parts of a Core ML model lie: `.mlpackage` and `.mlmodelc` folders, `.mlmodel` files.

A package is a folder with a Manifest.json that lists items by identifier, each with a path below Data/; the root item
is the specification, and weights lie in files below the item called weights, which the specification names
`@model_path/weights/NAME`.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from openane.errors import FormatError
from openane.importers.files import read_file

MANIFEST = "Manifest.json"
LARGEST_MANIFEST = 1 << 24
DATA = "Data"
AUTHOR = "com.apple.CoreML"


def specification(path: Path) -> Path:
    """The specification file of a model: the root item of a package, the file itself otherwise. FormatError when the
    package has none."""
    if not path.is_dir():
        return path
    manifest = _manifest(path / MANIFEST)
    root, items = manifest.get("rootModelIdentifier"), manifest.get("itemInfoEntries")
    entry = items.get(root) if isinstance(items, dict) and isinstance(root, str) else None
    where = entry.get("path") if isinstance(entry, dict) else None
    if not isinstance(where, str):
        raise FormatError(f"{MANIFEST} names no root model", expected="itemInfoEntries[rootModelIdentifier].path",
                          found=repr(root))
    relative = PurePosixPath(where)
    if relative.is_absolute() or ".." in relative.parts or not relative.name or "\0" in where:
        raise FormatError(f"{MANIFEST}: the root model lies outside the package", expected=f"a path below {DATA}/",
                          found=repr(where))
    return path / DATA / relative


def _manifest(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_file(path, "manifest", LARGEST_MANIFEST))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{MANIFEST} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"{MANIFEST} is not a manifest", expected="an object", found=type(document).__name__)
    return document
