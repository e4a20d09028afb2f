"""Data: arrays, text, token files; and the order in which they are gone through."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from openane.errors import FormatError
from openane.training.data import batches, order
from openane.training.data.arrays import Arrays
from openane.training.data.digits import Digits
from openane.training.data.text import TextFiles
from openane.training.data.tokens import Tokens


def test_an_epoch_has_every_example_once_in_an_order_of_its_own() -> None:
    first, again, second = order(1, 0, 50), order(1, 0, 50), order(1, 1, 50)
    assert sorted(first) == list(range(50))
    assert (first == again).all()
    assert (first != second).any()
    assert (first != order(2, 0, 50)).any()


def test_batches_are_filled_up() -> None:
    made = list(batches(5, 3))
    assert [numbers.tolist() for numbers, _ in made] == [[0, 1, 2], [3, 4, 3]]
    assert [real for _, real in made] == [3, 2]


def test_arrays_from_both_kinds_of_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(0, 255, (20, 2, 3)).astype(np.uint8), rng.integers(0, 4, 20)
    labels[0] = 3
    np.save(tmp_path / "x.npy", inputs)
    np.save(tmp_path / "y.npy", labels)
    np.savez(tmp_path / "both.npz", inputs=inputs, labels=labels)
    split = Arrays(inputs="x.npy", labels="y.npy", scale=0.5).load(tmp_path)
    other = Arrays(file="both.npz", scale=0.5).load(tmp_path)
    assert (len(split.training), len(split.test), split.classes) == (16, 4, 4)
    whole = [np.concatenate([part.take(np.arange(len(part)))[i] for part in (split.training, split.test)])
             for i in (0, 1)]
    assert sorted(whole[0].sum((1, 2))) == sorted(inputs.sum((1, 2)) * 0.5)
    for mine, its in zip(split.training.take(np.arange(16)), other.training.take(np.arange(16)), strict=True):
        assert (mine == its).all()


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.zeros((4, 2)), labels=np.zeros(3, np.int64), words=np.array(["a"] * 4))
    with pytest.raises(FormatError, match=r"one whole number from 0 for each input \(expected \[4\]"):
        Arrays(file="a.npz").load(tmp_path)
    with pytest.raises(FormatError, match="must be numbers of rank 2 or more"):
        Arrays(file="a.npz", inputs="words").load(tmp_path)
    with pytest.raises(FormatError, match="has no array 'x'; it has inputs, labels, words"):
        Arrays(file="a.npz", inputs="x").load(tmp_path)
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="cannot be read as numpy's npz"):
        Arrays(file="b.npz").load(tmp_path)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(FormatError, match="cannot be read as numpy's npy"):
        Arrays(inputs="objects.npy").load(tmp_path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_headers_that_claim_more_than_there_is(tmp_path: Path, version: tuple[int, int]) -> None:
    """Nothing is allocated by what a file claims: 36 TiB here."""
    made = io.BytesIO()
    write = npy.write_array_header_1_0 if version == (1, 0) else npy.write_array_header_2_0
    write(made, {"descr": "<f4", "fortran_order": False, "shape": (10**7, 10**6)})
    made.write(bytes(100))
    (tmp_path / "lie.npy").write_bytes(made.getvalue())
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "lie.npz", "w", method) as file:
            file.writestr("inputs.npy", made.getvalue())
        with pytest.raises(FormatError, match=r"lie\.npz .*claims 40000000000000 bytes of float32 .* has 100"):
            Arrays(file="lie.npz").load(tmp_path)
        whole = bytearray((tmp_path / "lie.npz").read_bytes())
        place = whole.index(b"PK\1\2") + 24  # the size the archive's directory states
        whole[place:place + 4] = struct.pack("<I", 0xFFFFFFF0)
        (tmp_path / "lie.npz").write_bytes(whole)
        with pytest.raises(FormatError, match=r"claims 4294967280 bytes in \d+ compressed ones"):
            Arrays(file="lie.npz").load(tmp_path)
        whole[place - 4:place] = struct.pack("<I", 0xFFFFFFF0)  # and how many compressed ones it states
        (tmp_path / "lie.npz").write_bytes(whole)
        with pytest.raises(FormatError, match=r"claims 4294967280 compressed bytes in a file of \d{2,4}$"):
            Arrays(file="lie.npz").load(tmp_path)
    with pytest.raises(FormatError, match=r"lie\.npy cannot be read as numpy's npy"):
        Arrays(inputs="lie.npy").load(tmp_path)


@pytest.mark.parametrize("shape", [(1 << 70, 1), (1 << 62, 4), (-1, 4), (1 << 40, 1 << 40, 0)])
def test_extents_beyond_every_address(tmp_path: Path, shape: tuple[int, ...]) -> None:
    made = io.BytesIO()
    npy.write_array_header_1_0(made, {"descr": "<f4", "fortran_order": False, "shape": shape})
    (tmp_path / "lie.npy").write_bytes(made.getvalue() + bytes(100))
    with pytest.raises(FormatError, match=r"lie\.npy cannot be read as numpy's npy: ."):
        Arrays(inputs="lie.npy").load(tmp_path)


def test_archives_with_something_else_inside(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("inputs.npy", b"\x93NUMPY\x09\x00" + bytes(40))
        file.writestr("words.npy", b"text")
    np.savez(tmp_path / "objects.npz", inputs=np.array([{}], object), allow_pickle=True)
    for name, array, message in (("a", "inputs", "version"), ("a", "words", "magic string"),
                                 ("objects", "inputs", "Python objects")):
        with pytest.raises(FormatError, match=message):
            Arrays(file=f"{name}.npz", inputs=array).load(tmp_path)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for source in (Arrays(file="none.npz"), Arrays(inputs="none.npy"), Tokens(file="none.bin", classes=9),
                   Arrays(file="."), Arrays(inputs=".")):
        with pytest.raises(FormatError, match=r"cannot be read: (No such file|Is a directory)"):
            source.load(tmp_path)
    with pytest.raises(FormatError, match="no file of uint16 tokens"):
        Tokens(file=".", classes=9).load(tmp_path)


def test_digits_are_split_as_in_the_example() -> None:
    split = Digits().load(Path())
    images, labels = split.training.take(np.arange(3))
    assert images.shape == (3, 1, 8, 8)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert (len(split.training), len(split.test), split.classes) == (1437, 360, 10)


def test_characters_are_tokens(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("abcabcab" * 40)
    (tmp_path / "a.txt").write_text("z" + "aab" * 40)
    split = TextFiles(files=("*.txt",), length=8, classes=4).load(tmp_path)
    assert split.tokens
    inputs, labels = split.training.take(np.array([0]))
    assert inputs.tolist() == [[0, 1, 1, 2, 1, 1, 2, 1]]  # z is the least frequent character
    assert labels.tolist() == [[1, 1, 2, 1, 1, 2, 1, 1]]
    assert len(split.training) == (len("z" + "aab" * 40 + "abcabcab" * 40) * 9 // 10 - 1) // 8
    with pytest.raises(FormatError, match=r"no file matches '\*\.md'"):
        TextFiles(files=("*.md",)).load(tmp_path)
    for wrong in ("", "a**b/"):
        with pytest.raises(FormatError, match=r"data\.files: "):
            TextFiles(files=(wrong,)).load(tmp_path)
    with pytest.raises(FormatError, match=r"have 441 characters; data\.least asks for 5000"):
        TextFiles(files=("*.txt",), least=5000).load(tmp_path)
    with pytest.raises(FormatError, match="too few for windows of 400"):
        TextFiles(files=("*.txt",), length=400).load(tmp_path)


def test_the_library_of_python_is_text_enough() -> None:
    split = TextFiles(files=("{stdlib}/[a-d]*.py",), limit=240_000, least=200_000).load(Path())
    assert len(split.training) > 3000


def test_token_files(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 300, 1000).astype("<u2")
    tokens[3] = 299
    (tmp_path / "t.bin").write_bytes(tokens.tobytes())
    split = Tokens(file="t.bin", classes=300, length=10).load(tmp_path)
    inputs, labels = split.training.take(np.array([2, 0]))
    assert (inputs[0] == tokens[20:30]).all()
    assert (labels[0] == tokens[21:31]).all()
    assert (len(split.training), len(split.test)) == (89, 9)
    with pytest.raises(FormatError, match=r"token data\.classes does not allow \(expected below 200, found 299\)"):
        Tokens(file="t.bin", classes=200).load(tmp_path)
    (tmp_path / "odd.bin").write_bytes(b"abc")
    with pytest.raises(FormatError, match="no file of uint16 tokens"):
        Tokens(file="odd.bin", classes=300).load(tmp_path)


def test_any_bytes_are_arrays_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"inputs": rng.standard_normal((6, 2)).astype(np.float32), "labels": np.arange(6) % 2}
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "b.npz", **arrays)
    np.save(tmp_path / "c.npy", arrays["inputs"])
    np.save(tmp_path / "y.npy", arrays["labels"])
    refused = 0
    for name in ("a.npz", "b.npz", "c.npy"):
        whole = (tmp_path / name).read_bytes()
        source = Arrays(file="x") if name.endswith("npz") else Arrays(inputs="x", labels="y.npy")
        for _ in range(300):
            changed = bytearray(whole)
            span = len(whole) if rng.random() < 0.5 else 160  # headers are in front
            for place in rng.integers(0, min(span, len(whole)), rng.integers(1, 4)):
                changed[place] = rng.integers(256)
            (tmp_path / "x").write_bytes(bytes(changed[:len(whole) - int(rng.integers(40)) * (rng.random() < 0.2)]))
            try:
                source.load(tmp_path)
            except FormatError:
                refused += 1
    assert refused > 300
