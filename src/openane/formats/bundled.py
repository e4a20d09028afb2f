"""Engine programs as the files of a bundle: constants that several of them have, once.

A program is a whole HWX file, `programs/0.hwx`. Another with the same constants, or runs of the same, is
`programs/1.part`: its HWX file without them. The manifest says where they are missing, and where in which whole file
they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from openane.errors import FormatError
from openane.formats.common import common_runs
from openane.formats.sealed import SEAL, SealedFolder
from openane.program import Constants, Program
from openane.record_classes import dataclass

MANIFEST = "manifest.json"
SHARED = "shared"
"""What the manifest calls its list of constants that programs share."""
COMPILE_AGAIN = "compile the model again"
Read = Callable[[str], Constants]
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


class Bundle(SealedFolder):
    """A bundle's folder: its seal, which is read now, and its files, compared with the seal when they are read.

    FormatError where a file cannot be read, too."""

    def __init__(self, path: Path) -> None:
        with _readable(path / SEAL):
            super().__init__(path)

    def read(self, name: str) -> memoryview:
        """See SealedFolder."""
        with _readable(self.folder / name):
            return super().read(name)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What cannot be read as a FormatError."""
    try:
        yield
    except OSError as error:
        hint = f": it has the digests of the other files ({COMPILE_AGAIN})" if path.name == SEAL else ""
        raise FormatError(f"{path} cannot be read: {error.strerror}{hint}") from None


def bundled_programs(path: Path) -> Iterator[tuple[Path, Constants]]:
    """The file of every program of a bundle, in order, and its HWX file, whole. Only where constants are shared is the
    manifest read. FormatError when a file cannot be read or was changed, or the manifest is malformed."""
    bundle = Bundle(path)
    names = [Path(name) for name in bundle.seal.files if name.startswith("programs/")]
    files = sorted((name for name in names if name.suffix in (".hwx", ".part")),
                   key=lambda name: (len(name.stem), name.stem))
    if all(file.suffix == ".hwx" for file in files):
        yield from ((path / file, bundle.read(file.as_posix())) for file in files)
        return
    try:
        found = program_data(bundle.read, len(files), json.loads(bytes(bundle.read(MANIFEST)))[SHARED])
        yield from ((path / file, data) for file, (data, _) in zip(files, found, strict=True))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{MANIFEST} does not say what constants programs share: {error}") from None


def whole_name(number: int) -> str:
    """The file of a whole program."""
    return f"programs/{number}.hwx"


def part_name(number: int) -> str:
    """The file of a program whose constants are another's."""
    return f"programs/{number}.part"


def divided(programs: Sequence[tuple[Program, bytes]]) -> tuple[dict[str, bytes], dict[str, list[dict[str, int]]]]:
    """The files of a bundle by path, of programs each with its HWX file, and what the manifest says of shared constants
    by the number of the program that lacks them."""
    made: dict[str, bytes] = {}
    shared: dict[str, list[dict[str, int]]] = {}
    places = [data.find(program.constants) if program.constants else -1 for program, data in programs]
    found = _shared([program for program, _ in programs], [place >= 0 for place in places])
    for number, ((_, data), runs) in enumerate(zip(programs, found, strict=True)):
        if not runs:
            made[whole_name(number)] = data
            continue
        holes = [SharedConstants(run.whole, places[run.whole] + run.begin, places[number] + run.at, run.bytes)
                 for run in runs]
        ends = [0, *(hole.at + hole.bytes for hole in holes)]
        made[part_name(number)] = b"".join(data[end:at] for end, at in zip(
            ends, [*(hole.at for hole in holes), len(data)], strict=True))
        shared[str(number)] = [asdict(hole) for hole in holes]
    return made, shared


def shared_bytes(programs: Sequence[Program]) -> list[int]:
    """How many bytes of each program's constants an earlier one of them has."""
    return [sum(run.bytes for run in runs) for runs in _shared(programs, [bool(each.constants) for each in programs])]


@dataclass(frozen=True, slots=True)
class _Run:
    """Constants that two programs have: `bytes` at `at` of the one, at `begin` of the other, number `whole`."""

    whole: int
    begin: int
    at: int
    bytes: int


def _shared(programs: Sequence[Program], able: Sequence[bool]) -> list[list[_Run]]:
    """For each program, of those that are able to share, the runs of its constants that one before it has: all of it,
    or parts of the first. A program others take from is whole."""
    found: list[list[_Run]] = []
    known: dict[bytes, int] = {}
    first = next((number for number, one in enumerate(able) if one), None)
    for number, (program, one) in enumerate(zip(programs, able, strict=True)):
        owner = known.setdefault(blake2b(program.constants).digest(), number) if one else number
        if not one or number == first:
            found.append([])
        elif owner != number and not found[owner]:
            found.append([_Run(owner, 0, 0, len(program.constants))])
        else:
            assert first is not None
            found.append([_Run(first, run.b, run.a, run.size) for run in
                          common_runs(memoryview(program.constants), memoryview(programs[first].constants))])
    return found


def program_data(read: Read, total: int, stated: Mapping[str, Any]) -> Iterator[tuple[Constants, int]]:
    """The HWX file of every program of a bundle, in order, and the number of the program whose constants it has: mostly
    its own. FormatError where a file is missing or lacks other bytes than the manifest states; ValueError, KeyError
    and TypeError where that is malformed."""
    shared = {int(number): [SharedConstants.of(each, total) for each in ([holes] if "at" in holes else holes)]
              for number, holes in stated.items()}
    for number in range(total):
        if number in shared:
            yield _filled(read, number, shared), shared[number][0].program
        else:
            yield read(whole_name(number)), number


def _filled(read: Read, number: int, shared: Mapping[int, Sequence[SharedConstants]]) -> Constants:
    """The file of a program with the constants it lacks. ValueError for a list that states none."""
    part = read(part_name(number))
    if not shared[number]:
        raise ValueError(f"program {number} lacks nothing")
    pieces: list[Constants] = []
    taken = made = 0
    for hole in shared[number]:
        whole = read(whole_name(hole.program))
        between = hole.at - made
        if hole.program in shared or hole.begin + hole.bytes > len(whole) or not 0 <= between <= len(part) - taken:
            raise FormatError(f"{part_name(number)} does not fit the program whose constants it has",
                              expected=f"{hole.bytes} bytes for offset {hole.at} of {len(part)}",
                              found=f"those at {hole.begin} of {len(whole)}")
        pieces += [part[taken:taken + between], whole[hole.begin:hole.begin + hole.bytes]]
        taken, made = taken + between, hole.at + hole.bytes
    return b"".join([*pieces, part[taken:]])
