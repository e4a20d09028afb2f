"""Digits that a bundle's constants have beyond fp16, in a file beside its MIL program, which states them in fp16.

A model that counts in steps of quantisation is compiled from all digits that its file states (graph.RoundedConstant);
with these its bundle is compiled to the same program again. The file `weights/digits.bin` is eight bytes, the length of
the JSON text that follows, little-endian, and then arrays of float32, each packed by zlib:

    {"functions": {NAME: [[node, operand, place, start, length]...]}}

`node` counts the operations of the function, `place` says which of several values an operand is, `start` counts bytes
from the end of the text.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openane.errors import FormatError
from openane.graph import Graph, Node, RoundedConstant, Value, substituted
from openane.program import Constants

DIGITS = "weights/digits.bin"
HEAD = 8
FAST = 1
"""zlib's level: numbers of a quantised weight are few, and repeat."""
FLOAT = np.dtype("<f4")


def write_digits(graphs: Sequence[Graph]) -> dict[str, bytes]:
    """The file of these functions; none where no constant has more digits than its type."""
    parts: list[bytes] = []
    places: dict[int, tuple[int, int]] = {}
    functions: dict[str, list[list[Any]]] = {}
    for graph in graphs:
        for number, node in enumerate(graph.nodes):
            for operand, place, value in _constants(node):
                if isinstance(value, RoundedConstant):
                    if id(value) not in places:
                        packed = zlib.compress(np.ascontiguousarray(value.digits(), FLOAT).tobytes(), FAST)
                        places[id(value)] = sum(map(len, parts)), len(packed)
                        parts.append(packed)
                    functions.setdefault(graph.name, []).append([number, operand, place, *places[id(value)]])
    text = json.dumps({"functions": functions}, separators=(",", ":")).encode()
    return {DIGITS: b"".join([len(text).to_bytes(HEAD, "little"), text, *parts])} if parts else {}


def with_digits(graph: Graph, name: str, data: Constants) -> Graph:
    """The function with the digits that the file `data` has of its constants. FormatError where it is malformed, or of
    other constants."""
    try:
        length = int.from_bytes(bytes(data[:HEAD]), "little")
        entries = json.loads(bytes(data[HEAD:HEAD + length]))["functions"].get(name, [])
        found = dict(_read(graph, entries, memoryview(data)[HEAD + length:]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError,
            zlib.error) as error:
        raise FormatError(f"{DIGITS} is malformed, or of another model: {type(error).__name__} {error}") from None
    return replace(graph, nodes=tuple(substituted(node, found) for node in graph.nodes)) if found else graph


def _read(graph: Graph, entries: Sequence[Sequence[Any]], parts: memoryview) -> Iterator[tuple[int, Value]]:
    """By id of the constant the one with all digits. ValueError for digits that are not of that constant."""
    known: dict[tuple[int, int], np.ndarray] = {}
    for number, operand, place, start, length in entries:
        if not 0 <= number < len(graph.nodes) or not 0 <= start <= start + length <= len(parts):
            raise ValueError(f"entry of node {number}, {length} bytes at {start}")
        value = {(name, index): each for name, index, each in _constants(graph.nodes[number])}[operand, place]
        size = value.type.elements * FLOAT.itemsize
        if (start, length) not in known:
            unpacked = zlib.decompressobj().decompress(parts[start:start + length], max(size, 1))
            known[start, length] = np.frombuffer(unpacked, FLOAT)
        stated, held = known[start, length].reshape(value.shape).astype(np.float32, copy=False), value.array()
        with np.errstate(over="ignore"):
            if not np.array_equal(stated.astype(held.dtype), held, equal_nan=True):
                raise ValueError(f"digits of {value.name!r} are not those of its numbers")
        yield id(value), RoundedConstant(value.name, value.type, held, stated=stated)


def _constants(node: Node) -> Iterator[tuple[str, int, Value]]:
    """The constants of a node: operand, which of it, value."""
    for name, operand in node.operands.items():
        for index, value in enumerate(operand if isinstance(operand, tuple) else (operand,)):
            if value.constant and isinstance(value.data, np.ndarray) and value.array().dtype.kind == "f":
                yield name, index, value

