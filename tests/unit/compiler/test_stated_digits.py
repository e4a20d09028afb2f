"""Digits beyond fp16 in a file beside a MIL program: read back to the bit, and refused where they are of others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from openane.compiler.artifact.stated_digits import DIGITS, HEAD, with_digits, write_digits
from openane.errors import FormatError
from openane.graph import Graph, RoundedArray, RoundedConstant, as_stated, without_stated
from openane.ops.build import GraphBuilder

NUMBERS = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)


def scaled() -> Graph:
    """A layer and a product whose constants have more digits than fp16."""
    builder = GraphBuilder("scaled")
    x = builder.input("x", "fp16", (2, 6))
    weight, scale = (RoundedArray(each.astype(np.float16), each) for each in (NUMBERS, NUMBERS[:1, :4]))
    y = builder.single("mul", x=builder.single("linear", x=x, weight=weight), y=scale)
    return builder.finish({"y": y})


def changed(data: bytes, **entry: int) -> bytes:
    """The file with the first entry changed."""
    length = int.from_bytes(data[:HEAD], "little")
    text = json.loads(data[HEAD:HEAD + length])
    for name, number in entry.items():
        text["functions"]["scaled"][0][("node", "operand", "place", "start", "length").index(name)] = number
    made = json.dumps(text).encode()
    return len(made).to_bytes(HEAD, "little") + made + data[HEAD + length:]


def test_digits_are_read_back() -> None:
    graph = scaled()
    data = write_digits([graph])[DIGITS]
    plain = without_stated(graph)
    assert not any(isinstance(value, RoundedConstant) for node in plain.nodes for value in node.values())
    made = with_digits(plain, "scaled", data)
    np.testing.assert_array_equal(as_stated(made.nodes[0])["weight"].array(), NUMBERS)
    np.testing.assert_array_equal(as_stated(made.nodes[1])["y"].array(), NUMBERS[:1, :4])
    np.testing.assert_array_equal(made.nodes[0]["weight"].array(), NUMBERS.astype(np.float16))


def test_there_is_no_file_without_such_constants() -> None:
    assert write_digits([without_stated(scaled())]) == {}
    plain = without_stated(scaled())
    assert with_digits(plain, "another", write_digits([scaled()])[DIGITS]) is plain


@pytest.mark.parametrize("entry", [{"node": 7}, {"node": 1}, {"operand": 3}, {"place": 2}, {"start": 3}, {"start": -1},
                                   {"length": 5}, {"length": 1 << 40}])
def test_digits_of_other_constants_are_refused(entry: dict[str, int]) -> None:
    data = changed(write_digits([scaled()])[DIGITS], **entry)
    with pytest.raises(FormatError, match="malformed, or of another model"):
        with_digits(without_stated(scaled()), "scaled", data)


def test_digits_that_are_not_those_of_the_numbers_are_refused() -> None:
    other = without_stated(scaled())
    other.nodes[0]["weight"].array()[0, 0] += 1
    with pytest.raises(FormatError, match="not those of its numbers"):
        with_digits(other, "scaled", write_digits([scaled()])[DIGITS])


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\xff" * 40, b"\2" + b"\0" * 7 + b"{}"])
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=DIGITS):
        with_digits(without_stated(scaled()), "scaled", data)
