"""Tables, JSON and arrays of the command line."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.cli.arrays import ArrayPort, compare, gather, unlike
from openane.cli.files import parse_input, parse_shape
from openane.cli.output import as_json, shape_text, table
from openane.errors import FormatError, UnsupportedError
from openane.numpy_files import read_npy
from openane.wording import byte_text, line_text, plural

IMAGE = ArrayPort("image", (1, 2, 3), np.dtype(np.float32))
INDEX = ArrayPort("index", (4,), np.dtype(np.int32))


def test_tables_align_numbers_right_and_text_left() -> None:
    assert table([("a", 1), ("long", 200)], heading=("name", "n")) == ["name    n", "a       1", "long  200"]
    assert table([]) == []


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda children: st.lists(children) | st.dictionaries(st.text(), children), max_leaves=20))
def test_json_is_strict_whatever_it_holds(document: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(as_json(document), parse_constant=refuse)


def test_where_json_has_a_number_it_never_has_a_word() -> None:
    assert json.loads(as_json({"error": [math.inf, -math.inf, math.nan, 1.5]})) == {"error": [None, None, None, 1.5]}


@given(st.text(max_size=400), st.integers(60, 200))
def test_names_fit_a_line(name: str, longest: int) -> None:
    text = line_text(name, longest)
    assert text.isprintable()
    assert name != text or len(name) <= longest
    if name.isprintable():
        assert len(text) <= longest
        assert text == name or (text[0], text[-1]) == (name[0], name[-1])


def test_counts_and_sizes_read_well() -> None:
    assert [byte_text(n) for n in (0, 1023, 1024, 8192000)] == ["0 B", "1023 B", "1.0 KiB", "7.8 MiB"]
    assert [plural(1, "task"), plural(2, "task")] == ["1 task", "2 tasks"]
    assert [shape_text((1, 3)), shape_text(())] == ["1x3", "scalar"]


def test_shape_arguments() -> None:
    assert parse_shape("x=1x3x224x224") == ("x", (1, 3, 224, 224))
    assert parse_shape("x=1x{32,64}") == ("x", (1, (32, 64)))
    assert parse_shape("x={8:33:8}x4") == ("x", ((8, 16, 24, 32), 4))
    for bad in ("1x3", "x=", "x=1x", "x=0x3", "=1", "x=-1", "x=1.5", "x={}", "x={1", "x=1,2", "x={0,1}", "x={1:2}",
                "x={9:8:1}", "x={1:2000000000:1}", "x={1:99999:1}", "x=99999999999"):
        with pytest.raises(ArgumentTypeError, match=r"1x3x224x224.*, found"):
            parse_shape(bad)


def test_input_arguments() -> None:
    assert parse_input("x=a=b.npy") == ("x", Path("a=b.npy"))
    for bad in ("x", "x=", "=a.npy"):
        with pytest.raises(ArgumentTypeError, match=r"NAME=FILE\.npy, found"):
            parse_input(bad)


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert table([("a\nb\x1b", 1)]) == [r"a\nb\x1b  1"]


def test_drawn_inputs_depend_on_the_seed_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", np.ones(IMAGE.shape, np.float64))
    drawn = gather([IMAGE, INDEX], {}, 7)
    mixed = gather([IMAGE, INDEX], {"image": tmp_path / "image.npy"}, 7)
    np.testing.assert_array_equal(drawn["index"], mixed["index"])
    assert mixed["image"].dtype == np.float64  # rounding is the device's business, which reports it
    assert (mixed["image"] == 1).all()
    assert not np.array_equal(drawn["image"], gather([IMAGE], {}, 8)["image"])


def test_drawn_positions_are_inside_of_their_table(tmp_path: Path) -> None:
    np.save(tmp_path / "index.npy", np.zeros(INDEX.shape, INDEX.dtype))
    assert gather([IMAGE, INDEX], {}, 7, tables=lambda: {"index": 1})["index"].max() == 0
    gather([IMAGE, INDEX], {"index": tmp_path / "index.npy"}, 7, tables=lambda: pytest.fail("nothing is drawn"))


@pytest.mark.parametrize(("name", "array", "words"), [
    ("picture", np.zeros((1, 2, 3), np.float32), ["picture", "image, index"]),
    ("image", np.zeros((3, 2), np.float32), ["float32 [1, 2, 3]", "[3, 2]", "hint", "reshape(1, 2, 3)"]),
    ("image", np.zeros((1, 2, 4), np.float32), ["hint", "--shape"]),
    ("index", np.zeros(4, np.float32), ["int32", "float32", "astype('int32')"]),
])
def test_inputs_that_do_not_fit_say_what_would(tmp_path: Path, name: str, array: np.ndarray, words: list[str]) -> None:
    file = tmp_path / "x.npy"
    np.save(file, array)
    with pytest.raises(UnsupportedError) as caught:
        gather([IMAGE, INDEX], {name: file}, 0)
    assert all(word in str(caught.value) for word in words)


def test_extents_of_one_do_not_matter_and_programs_take_any_order_of_extents() -> None:
    loose = ArrayPort("image", IMAGE.shape, IMAGE.dtype, strict=False)
    assert IMAGE.takes((2, 3))
    assert not IMAGE.takes((3, 2))
    assert loose.takes((6,))
    assert not loose.takes((7,))


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.zeros(1000, np.float32))
    data = good.read_bytes()
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], object), allow_pickle=True)
    huge = data[:128].replace(b"(1000,)", b"(9" + b"9" * 12 + b",)")[:128]
    for content in (b"", b"hello", data[:40], data[:500], huge, objects.read_bytes()):
        file = tmp_path / "bad.npy"
        file.write_bytes(content)
        with pytest.raises(FormatError):
            read_npy(file)
    np.savez(tmp_path / "many.npz", a=np.zeros(1))
    with pytest.raises(FormatError, match="npz"):
        read_npy(tmp_path / "many.npz")


def test_errors_are_measured() -> None:
    wanted = np.array([1.0, -4.0, np.inf], np.float32)
    assert compare(wanted, wanted) == {"max_abs": 0.0, "max_rel": 0.0, "l2_rel": 0.0}
    error = compare(np.array([1.5, -4.0]), np.array([1.0, -4.0]))
    assert error["max_abs"] == 0.5
    assert error["max_rel"] == 0.125
    assert error["l2_rel"] == pytest.approx(0.5 / math.sqrt(17))


def test_infinite_values_do_not_hide_other_errors() -> None:
    wanted = np.array([np.inf, 1.0])
    assert compare(np.array([np.inf, 2.0]), wanted)["l2_rel"] == 1
    assert compare(np.array([np.inf, np.inf]), wanted)["l2_rel"] == np.inf
    assert unlike(np.array([np.inf, np.nan]), wanted) == (1, 0)
    assert unlike(np.array([-np.inf, 1.0]), wanted) == (0, 1)
    assert unlike(np.array([np.inf, 9.0]), wanted) == (0, 0)
    assert unlike(np.array([1, 2]), np.array([np.nan, 2])) == (0, 1)
