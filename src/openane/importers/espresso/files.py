"""The three files of an espresso model: the network and the shapes (JSON, plain or compressed) and the weights.

Compressed files are chunks of LZFSE behind "pbze" and a chunk size. The weight file is a count, a table of (number,
bytes) and the blobs back to back; blobs with even numbers fill up to where the next one begins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.errors import FormatError
from openane.formats.lzfse import decompress
from openane.importers.entry import DictionaryEntry, halves

COMPRESSED = b"pbze"
_HEADER, _CHUNK = 12, 16
_LIMIT = 64 << 20
BIAS_BYTES = 16
"""Bytes per channel that blobs of biases take: the numbers first, fp32, then filler."""


def read_json(data: bytes, what: str) -> dict[str, Any]:
    """The dictionary of a network or shape file, compressed or not. FormatError for anything else."""
    if data[:4] == COMPRESSED:
        data = _unpack(data)
    if len(data) > _LIMIT:
        raise FormatError(f"too large for {what}", expected=f"at most {_LIMIT} bytes", found=len(data))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what} is not JSON: {error!s:.120}") from None
    if not isinstance(document, dict):
        raise FormatError(f"{what} is not a dictionary", expected="{", found=type(document).__name__)
    return document


def _unpack(data: bytes) -> bytes:
    """The contents of a compressed file: chunks of (bytes unpacked, bytes packed, the packed data)."""
    out = b""
    position = _HEADER
    while position < len(data):
        sizes = data[position:position + _CHUNK]
        if len(sizes) < _CHUNK:
            raise FormatError("the compressed file ends early", offset=position, expected="16 bytes", found=len(sizes))
        size, packed = (int.from_bytes(sizes[at:at + 8], "big") for at in (0, 8))
        if position == _HEADER and not 0 < packed <= len(data) - position - _CHUNK:
            # Some writers leave the packed size out: a single chunk reaches to the end.
            size, packed = int.from_bytes(sizes[4:8], "big"), len(data) - position - _CHUNK
        if size > _LIMIT - len(out):
            raise FormatError("the compressed file is too large", offset=position, expected=f"at most {_LIMIT} bytes",
                              found=size)
        position += _CHUNK
        chunk = data[position:position + packed]
        unpacked = decompress(chunk, size) if chunk[:3] == b"bvx" else chunk
        if len(unpacked) != size:
            raise FormatError("a compressed chunk of another length than it states", offset=position, expected=size,
                              found=len(unpacked))
        out += unpacked
        position += packed
    return out


class Blobs:
    """Weight blobs by number. FormatError when the table does not fit the file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._places: dict[int, tuple[int, int]] = {}
        count = int.from_bytes(data[:8], "little") if data else 0
        position = 8 + 16 * count
        if data and (len(data) < 8 or position > len(data)):
            raise FormatError("the weight file's table does not fit", offset=0,
                              expected=f"at most {max(0, len(data) - 8) // 16} entries", found=count)
        for index in range(count):
            number, size = (int.from_bytes(data[at:at + 8], "little") for at in (8 + 16 * index, 16 + 16 * index))
            if size > len(data) - position:
                raise FormatError(f"weight blob {number} does not fit", offset=8 + 16 * index,
                                  expected=f"at most {len(data) - position} bytes", found=size)
            self._places[number] = position, size
            position += size

    def read(self, entry: DictionaryEntry, key: str, count: int, dtype: str, filled: bool = False) -> np.ndarray:
        """`count` numbers of the blob whose number is under `key`, as fp16. Blobs of biases (`filled`) may hold filler
        behind them; the others must have exactly that length."""
        place = self._places.get(entry.integer(key))
        if place is None:
            raise FormatError(f"{entry.label}: {key}", expected=f"one of {len(self._places)} weight blobs",
                              found=entry.values[key])
        start, size = place
        needed = count * np.dtype(dtype).itemsize
        if size != needed and not (filled and size == count * BIAS_BYTES):
            raise FormatError(f"{entry.label}: weight blob {entry.values[key]} has another length than is needed",
                              expected=f"{needed} bytes: {count} numbers of {np.dtype(dtype)}", found=f"{size} bytes")
        return halves(np.frombuffer(self._data, dtype, count, start), f"{entry.label}, {key}")


Shape = tuple[int, ...]
AXES = ("seq", "n", "k", "h", "w")
"""Names of the axes, outermost first; a tensor of rank r has the last r."""


def read_shapes(document: Mapping[str, Any]) -> dict[str, Shape]:
    """Shapes by blob name. FormatError for entries that are no shapes."""
    top = DictionaryEntry("espresso shapes", document)
    shapes = {}
    for name in (table := top.section("layer_shapes")).values:
        entry = DictionaryEntry(f"espresso shape of {name!r:.80}", table.section(name).values)
        rank = entry.integer("_rank", 4, 0, 5)
        shapes[name] = tuple(entry.integer(axis, 1, 1) for axis in AXES[5 - rank:])
    return shapes
