"""Slices of MIL programs that begin where data says: numpy's slices at the same place."""

from __future__ import annotations

import numpy as np
import pytest

from openane.errors import GraphError, UnsupportedError
from openane.importers import load_mil
from openane.ops.evaluate import evaluate

X = np.random.default_rng(2).standard_normal((1, 4, 6, 8)).astype(np.float16)
NEW = np.random.default_rng(3).standard_normal((1, 4, 2, 8)).astype(np.float16)

PROGRAM = """program(1.3)
{
  func main<ios18>(tensor<fp16, [1, 4, 6, 8]> x, tensor<fp16, [%s]> new, tensor<int32, [1]> at) {
    tensor<int32, [2]> front = const()[name = string("front"), val = tensor<int32, [2]>([0, %d])];
    tensor<int32, [1]> last = const()[name = string("last"), val = tensor<int32, [1]>([0])];
    int32 axis = const()[name = string("axis"), val = int32(0)];
    bool mixed = const()[name = string("mixed"), val = bool(false)];
    tensor<int32, [4]> begin = concat(axis = axis, interleave = mixed, values = (front, at, last))[name = string("b")];
    %s
  } -> (y);
}
"""


def run(statement: str, at: int, new: np.ndarray = NEW, channel: int = 0) -> np.ndarray:
    graph = load_mil(PROGRAM % (", ".join(map(str, new.shape)), channel, statement))
    return evaluate(graph, {"x": X, "new": new, "at": np.array([at], np.int32)})["y"]


@pytest.mark.parametrize("at", [0, 3, 4])
def test_what_is_read_is_looked_up(at):
    by_size = ("tensor<fp16, [1, 3, 2, 8]> y = slice_by_size(x = x, begin = begin, "
               "size = tensor<int32, [4]>([1, 3, 2, -1]))[name = string(\"y\")];")
    assert np.array_equal(run(by_size, at, channel=1), X[:, 1:, at:at + 2])
    masks = {"begin_mask": "[true, false, false, true]", "end_mask": "[true, true, false, true]",
             "squeeze_mask": "[false, false, true, false]"}
    stated = ", ".join(f"{name} = tensor<bool, [4]>({mask})" for name, mask in masks.items())
    by_index = ("tensor<fp16, [1, 4, 8]> y = slice_by_index(x = x, begin = begin, end = begin, "
                f"{stated})[name = string(\"y\")];")
    assert np.array_equal(run(by_index, at), X[:, :, at])


@pytest.mark.parametrize("at", [0, 3, 4])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("channel", [0, 2])
def test_what_is_written_is_chosen_element_by_element(at, count, channel):
    new = NEW[:, channel:, :count]
    statement = ("tensor<fp16, [1, 4, 6, 8]> y = slice_update(x = x, update = new, begin = begin, end = begin, "
                 "end_mask = tensor<bool, [4]>([true, true, false, true]))[name = string(\"y\")];")
    expected = X.copy()
    expected[:, channel:, at:at + count] = new
    assert np.array_equal(run(statement, at, new, channel), expected)


def test_slices_that_contradict_themselves_are_refused():
    with pytest.raises(GraphError, match=r"slice_by_size.*do not fit the 4 dimensions"):
        run("tensor<fp16, [4, 2]> y = slice_by_size(x = x, begin = begin, size = tensor<int32, [4]>([1, 3, 2, 1]))"
            "[name = string(\"y\")];", 0)


@pytest.mark.parametrize("begin", ["x", "joined", "short"])
def test_where_to_begin_is_as_many_numbers_as_there_are_dimensions(begin):
    """Also where the type of what is joined says so, and its parts are more."""
    joined = ("tensor<int32, [4]> joined = concat(axis = axis, interleave = mixed, values = (at, many))"
              "[name = string(\"joined\")]; tensor<int32, [4]> short = concat(axis = axis, interleave = mixed, "
              "values = (at, at))[name = string(\"short\")]; ")
    with pytest.raises(GraphError, match=r"do not fit the 4 dimensions|have more|have fewer"):
        load_mil(PROGRAM.replace("at) {", "at, tensor<int32, [2000000]> many) {") % ("1, 4, 2, 8", 0, joined + (
            f"tensor<fp16, [1, 4, 2, 8]> y = slice_by_size(x = x, begin = {begin}, size = tensor<int32, [4]>"
            "([1, 4, 2, 8]))[name = string(\"y\")];")))


def test_positions_of_endless_axes_are_not_listed():
    """The type alone says so; nothing is allocated."""
    with pytest.raises(UnsupportedError, match=r"limit 1048576, found 900000000"):
        load_mil(PROGRAM.replace("[1, 4, 6, 8]> x", "[1, 1, 900000000, 1]> x") % ("1, 1, 2, 1", 0, (
            "tensor<fp16, [1, 1, 2, 1]> y = slice_by_size(x = x, begin = begin, size = tensor<int32, [4]>"
            "([1, 1, 2, 1]))[name = string(\"y\")];")))


def test_numbers_are_joined_as_vectors():
    joined = ("int32 two = const()[name = string(\"two\"), val = int32(2)]; int32 first = reduce_sum(x = at, axes = "
              "tensor<int32, [1]>([0]), keep_dims = bool(false))[name = string(\"first\")]; tensor<int32, [3]> y = "
              "concat(values = (two, first, two), axis = int32(0), interleave = bool(false))[name = string(\"y\")];")
    assert run(joined, 5).tolist() == [2, 5, 2]
