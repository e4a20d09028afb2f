"""The specification read by coremltools: a second reader beside our own, and models that are in memory already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.formats.protobuf import Message, Schema
from openane.importers.coreml.schema import SCHEMA
from openane.version import pip_line


def package() -> Any:
    """The coremltools package. UnsupportedError with the pip line where it is missing."""
    try:
        import coremltools
    except ImportError:
        raise UnsupportedError("reading through coremltools", "needs the coremltools package",
                               remedy=f"{pip_line('coreml')}, or reader=\"own\", which needs nothing") from None
    return coremltools


def load_specification(path: Path) -> Message:
    """The Model message of a package or `.mlmodel`, parsed by coremltools."""
    coremltools = package()
    try:
        return adopt(coremltools.utils.load_spec(str(path)))
    except Exception as error:  # coremltools and its protobuf runtime raise kinds of their own
        raise FormatError(f"coremltools cannot read it: {error}") from None


def adopt(proto: Any, schema: Schema = SCHEMA, kind: str = "Model") -> Message:
    """A message of the protobuf runtime as ours: the same fields by name, those the schema leaves out dropped."""
    values: dict[str, Any] = {}
    for descriptor, value in proto.ListFields():
        field = schema.by_name[kind].get(descriptor.name)
        if field is None:
            continue
        inner = field.kind in schema.by_name
        if field.raw:
            values[field.name] = _bytes(value, field.kind)
        elif field.mapped:
            values[field.name] = {key: adopt(item, schema, field.kind) if inner else item
                                  for key, item in value.items()}
        elif field.repeated:
            values[field.name] = [adopt(item, schema, field.kind) if inner else item for item in value]
        else:
            values[field.name] = adopt(value, schema, field.kind) if inner else value
    return Message(schema, kind, **values)


def _bytes(numbers: Any, kind: str) -> bytes:
    return np.array(numbers, "<f4" if kind == "float" else "<f8").tobytes()
