"""Arrays of strangers: whatever numpy and zipfile raise over their bytes is a FormatError, wherever they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzzing.mutants import behind, of_archive, of_bytes, of_text, one_of

from openane.cli.arrays import ArrayPort, fitting
from openane.errors import AneError, FormatError
from openane.numpy_files import read_npy, read_npz
from openane.quantization.samples import read_samples

PORT = ArrayPort("x", (2, 3), np.dtype(np.float32))
HEADER = behind(2, of_text, 8)


def written(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(24)


@pytest.mark.parametrize("header", [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,)}", "'", "{", "(" * 500, "[" * 200 + "]" * 200, "1 2", "",
    "{'descr': [('a',)], 'fortran_order': False, 'shape': ()}", "{'descr': '<f4', 'shape': (2, 3)}", "{" + "'a':" * 90,
    f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 40}, {1 << 40})}}", "\x00", "0x" + "f" * 5000,
    "{'a': 0x1for x in 2}", "{'descr': '<U0', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (1,)}"])
@pytest.mark.parametrize("read", [read_npy, lambda path: fitting(PORT, path), lambda path: read_samples(path.parent)],
                         ids=["an array", "an input", "samples"])
def test_headers_that_make_no_sense(header: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(written(header))
    with pytest.raises(FormatError, match=r"x\.npy"):
        read(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_mutants_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{kind}"
    with path.open("wb") as file:
        np.save(file, np.zeros((2, 3), np.float32)) if kind == "npy" else np.savez(file, x=np.ones(4), y=np.arange(3))
    seed, draw, refused = path.read_bytes(), random.Random(0), 0
    change = one_of(HEADER, of_bytes)
    for _ in range(400):
        path.write_bytes((change if kind == "npy" else of_archive(change))(seed, draw))
        try:
            read_npy(path) if kind == "npy" else read_npz(path)
        except AneError:
            refused += 1
    assert 100 < refused < 400
