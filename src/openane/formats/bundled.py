"""Engine programs as the files of a bundle: constants that several of them have, once.

A program is a whole HWX file, `programs/0.hwx`. Another with the same constants is `programs/1.part`: its HWX file
without them. The manifest says where they are missing, and where in which whole file they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from openane.errors import FormatError
from openane.program import Program

MANIFEST = "manifest.json"
SHARED = "shared"
"""What the manifest calls its list of constants that programs share."""
Read = Callable[[str], bytes]
"""The bytes of a bundle's file by its path. FormatError when it is not there."""


@dataclass(frozen=True, slots=True)
class SharedConstants:
    """The `bytes` that a part lacks at `at`: those of the whole file of program `program` that begin at `begin`."""

    program: int
    begin: int
    at: int
    bytes: int

    @staticmethod
    def of(stated: Mapping[str, Any], programs: int) -> SharedConstants:
        """What a manifest states, of a bundle with so many programs. ValueError for what cannot be; KeyError and
        TypeError where it is malformed."""
        found = SharedConstants(*(int(stated[name]) for name in SharedConstants.__slots__))
        if min(found.begin, found.at, found.bytes) < 0 or not 0 <= found.program < programs:
            raise ValueError(f"shared constants of program {found.program}")
        return found


def bundle_reader(path: Path) -> Read:
    """What reads the files of a bundle that is a folder."""
    def read(name: str) -> bytes:
        try:
            return (path / name).read_bytes()
        except OSError as error:
            raise FormatError(f"{path / name} cannot be read: {error.strerror or error}") from None

    return read


def bundled_programs(path: Path) -> Iterator[tuple[Path, bytes]]:
    """The file of every program of a bundle, in order, and its HWX file, whole. Only where constants are shared is the
    manifest read. FormatError when a file cannot be read, or the manifest is malformed."""
    files = sorted((file for file in (path / "programs").glob("*.*") if file.suffix in (".hwx", ".part")),
                   key=lambda file: (len(file.stem), file.stem))
    read = bundle_reader(path)
    if all(file.suffix == ".hwx" for file in files):
        yield from ((file, read(f"programs/{file.name}")) for file in files)
        return
    try:
        found = program_data(read, len(files), json.loads(read(MANIFEST))[SHARED])
        yield from ((file, data) for file, (data, _) in zip(files, found, strict=True))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{MANIFEST} does not say what constants programs share: {error}") from None


def whole_name(number: int) -> str:
    """The file of a whole program."""
    return f"programs/{number}.hwx"


def part_name(number: int) -> str:
    """The file of a program whose constants are another's."""
    return f"programs/{number}.part"


def divided(programs: Sequence[tuple[Program, bytes]]) -> tuple[dict[str, bytes], dict[str, dict[str, int]]]:
    """The files of a bundle by path, of programs each with its HWX file, and what the manifest says of shared constants
    by the number of the program that lacks them."""
    made: dict[str, bytes] = {}
    shared: dict[str, dict[str, int]] = {}
    known: dict[bytes, tuple[int, int]] = {}
    for number, (program, data) in enumerate(programs):
        at = data.find(program.constants) if program.constants else -1
        size = len(program.constants)
        first, begin = known.setdefault(blake2b(program.constants).digest(), (number, at)) if at >= 0 else (number, -1)
        if first == number:
            made[whole_name(number)] = data
        else:
            made[part_name(number)] = data[:at] + data[at + size:]
            shared[str(number)] = asdict(SharedConstants(first, begin, at, size))
    return made, shared


def program_data(read: Read, total: int, stated: Mapping[str, Any]) -> Iterator[tuple[bytes, int]]:
    """The HWX file of every program of a bundle, in order, and the number of the program whose constants it has: mostly
    its own. FormatError where a file is missing or lacks other bytes than the manifest states; ValueError, KeyError
    and TypeError where that is malformed."""
    shared = {int(number): SharedConstants.of(each, total) for number, each in stated.items()}
    for number in range(total):
        hole = shared.get(number)
        if hole is None:
            yield read(whole_name(number)), number
            continue
        whole, part = read(whole_name(hole.program)), read(part_name(number))
        if hole.program in shared or hole.begin + hole.bytes > len(whole) or hole.at > len(part):
            raise FormatError(f"{part_name(number)} does not fit the program whose constants it has",
                              expected=f"{hole.bytes} bytes for offset {hole.at} of {len(part)}",
                              found=f"those at {hole.begin} of {len(whole)}")
        yield b"".join((part[:hole.at], whole[hole.begin:hole.begin + hole.bytes], part[hole.at:])), hole.program
