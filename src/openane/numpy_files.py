"""Arrays in numpy's files. What a header claims is held against the size of the file before anything is allocated."""

from __future__ import annotations

import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from numpy.lib import format as npy

from openane.archives import check_member
from openane.errors import FormatError

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
FAULTS = (ValueError, TypeError, EOFError, LookupError, OverflowError, RuntimeError, SyntaxError, TokenError,
          MemoryError, struct.error, zipfile.BadZipFile, zlib.error)
"""What numpy and zipfile raise over bytes that make no sense; an archive with a password is a RuntimeError."""


def read_npy(path: Path, several: str = "") -> np.ndarray:
    """The array of a .npy file, mapped: a false size in its header costs nothing. FormatError when the file cannot be
    read, is of another form, or claims more than it holds; `several` is said where it is an .npz file."""
    with _refused(path, "npy"):
        with path.open("rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:  # numpy says it better of what is something else
                file.seek(0)
                _check_header(file, path.stat().st_size, path.name)
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise FormatError(f"{path} holds several arrays{several}", expected="one array (.npy)", found=".npz")
    return found


def read_npz(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or those of `names`. Errors as of `read_npy`."""
    with _refused(path, "npz"), zipfile.ZipFile(path) as archive:
        known = [each.removesuffix(".npy") for each in archive.namelist()]
        return {name: _member(archive, known, name, path) for name in (known if names is None else names)}


@contextmanager
def _refused(path: Path, kind: str) -> Iterator[None]:
    """What numpy, zipfile and the system raise as a FormatError; Python's warnings of what a header spells are not for
    its reader."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # numpy refuses a product of extents that overflows
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", UserWarning)  # of headers that Python 2 wrote
            yield
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except FAULTS as error:
        raise FormatError(f"{path} cannot be read as numpy's {kind}: {str(error) or 'it ends too early'}") from None


def _member(archive: zipfile.ZipFile, known: Sequence[str], name: str, path: Path) -> np.ndarray:
    """An array of an archive with members of `known` names. ValueError where its header claims what cannot be there."""
    if name not in known:
        raise FormatError(f"{path} has no array {name!r}; it has {', '.join(known)}")
    about = archive.infolist()[known.index(name)]
    check_member(about, path.stat().st_size)
    with archive.open(about) as file:
        _check_header(file, about.file_size, name)
    with archive.open(about) as file:
        array: np.ndarray = npy.read_array(file, allow_pickle=False)
    return array


def _check_header(file: IO[bytes], size: int, name: str) -> None:
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"{name!r} is of version {version} of the format; known are {', '.join(map(str, HEADERS))}")
    shape, _, dtype = HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(f"{name!r} holds Python objects, which are not read")
    if min(shape, default=0) < 0 or not dtype.itemsize:  # numpy would divide by the size of such an array
        raise ValueError(f"{name!r} states {list(shape)} values of {dtype.itemsize} bytes each")
    claimed, there = prod(shape) * dtype.itemsize, size - file.tell()
    if claimed != there:
        raise ValueError(f"{name!r} claims {claimed} bytes of {dtype} {list(shape)}, and has {there}")
