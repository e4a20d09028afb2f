"""Programs in files: told apart by content when read, by suffix when written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from openane.errors import AneError, FormatError, ProgramError
from openane.formats.anec import is_anec, read_anec, write_anec
from openane.formats.hwx import MAGIC, read_hwx, write_hwx
from openane.formats.mapping import map_file
from openane.program import Constants, Program


def detect(data: Constants) -> str:
    """`hwx` or `anec`, from the content. FormatError when it is neither."""
    if data[:4] == MAGIC.to_bytes(4, "little"):
        return "hwx"
    if is_anec(data):
        return "anec"
    raise FormatError("not a compiled program", offset=0, found=bytes(data[:4]).hex(" ") or "nothing",
                      expected="the HWX magic number ce fa ef be, or an ANEC header whose sizes agree with the file's")


def load_program(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Program:
    """The engine program in a file (or in its bytes). FormatError when it cannot be read or breaks its format,
    ProgramError when its task descriptors are none. A file's constants stay in it, mapped."""
    data: Constants
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, name = bytes(source), ""
    else:
        name = os.fspath(source)
        try:
            data = map_file(Path(name))
        except (OSError, ValueError) as error:
            raise FormatError(f"{name!r} cannot be read: {error}") from None
    if not name:
        return _read(data)
    try:
        program = _read(data, Path(name).suffix)
    except AneError as error:
        raise error.within(name) from None
    program.origin["file"] = name
    return program


def _read(data: Constants, suffix: str = "") -> Program:
    """By content; the suffix only chooses whose complaint is heard about a file that is neither."""
    named_anec = suffix == ".anec" and data[:4] != MAGIC.to_bytes(4, "little")
    return read_anec(data) if named_anec or detect(data) == "anec" else read_hwx(data)


def save_program(program: Program, path: str | os.PathLike[str], *, layout: str = "macos26",
                 header: int = 0x1000) -> Path:
    """Writes `.hwx` (in `layout`) or `.anec` (with `header`), by the path's suffix, and returns the path.

    The file appears complete or not at all. ProgramError when the suffix is neither or the program has no such form.
    """
    target = Path(path)
    if target.suffix == ".hwx":
        data = write_hwx(program, layout)
    elif target.suffix == ".anec":
        data = write_anec(program, header)
    else:
        raise ProgramError(f"{target.name!r}: engine programs are written as .hwx or .anec")
    write_atomically(target, data)
    return target


def write_atomically(target: Path, data: bytes) -> None:
    """Replaces what `target` holds, or the file it is a link to, by `data`, through a temporary file beside it, which
    keeps the mode of what was there. Pipes and devices are written to. An OSError names `target`."""
    try:
        place = Path(os.path.realpath(target))
        if place.exists() and not place.is_file():
            place.write_bytes(data)  # into a pipe or device; of a folder the error says so
        else:
            _replace(place, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None


def _replace(place: Path, data: bytes) -> None:
    mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~umask()
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def umask() -> int:
    """The file mode bits new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
