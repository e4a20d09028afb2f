"""FILE arguments: a model, a compiled program or a bundle, told apart by content, never by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from openane.cli.directories import directory_graphs, is_directory
from openane.cli.numbers import expected, finite
from openane.errors import AneError, FormatError, UnsupportedError
from openane.formats import detect, load_program, read_hwx
from openane.formats.bundled import bundled_programs
from openane.formats.mapping import map_file

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.graph import Graph
    from openane.program import Program


Extent = int | tuple[int, ...]
"""How long a dimension is, or how long it may be."""
LARGEST_EXTENT = 1 << 31
LONGEST_EXTENT = len(str(LARGEST_EXTENT))
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MOST_ALTERNATIVES = 64
"""Programs that one model in several shapes may become."""


def container(path: Path) -> str | None:
    """The program format of a file (`hwx`, `anec`), `bundle` for a bundle, None when it must be a model.

    A file that is neither program nor model but named like a program counts as one, so that its reader says why.
    """
    if path.is_dir():
        return "bundle" if (path / "manifest.json").is_file() else None
    try:
        return detect(map_file(path))
    except FormatError:
        return path.suffix[1:] if path.suffix in (".hwx", ".anec") else None


def open_file(path: Path, shapes: dict[str, tuple[int, ...]] | None = None,
              function: str | None = None, values: dict[str, float | list[float]] | None = None,
              limit: int | None = None) -> Program | Model | Graph:
    """What the file holds; `shapes`, `function`, `values` and `limit` are for models (see load_graph). Errors are those
    of the format's reader; a missing file is an OSError."""
    kind = container(path)
    if kind == "bundle":
        from openane.compiler import Model

        return Model.load(path)
    if kind is not None:
        return load_program(path)
    if is_directory(path):
        return directory_graphs(path, shapes or {}, [] if function is None else [function])[0]
    from openane.importers import load_graph

    return load_graph(path, shapes, function, values, limit)


def programs(path: Path) -> list[Program]:
    """The engine programs in a compiled file or bundle. UnsupportedError for anything else, models among it."""
    kind = container(path)
    if kind is None:
        text = path.is_file() and bytes(map_file(path)[:8]) == b"openane "
        raise UnsupportedError(str(path), "this is no compiled program (.hwx, .anec or a bundle)",
                               remedy=f"it is a program as text: ane asm {path} -o {path.name.split('.')[0]}.hwx"
                               if text else f"a model is compiled first: ane compile {path} -o {path.stem}.hwx")
    if kind != "bundle":
        return [load_program(path)]
    return [_read(data, file) for file, data in bundled_programs(path)]


def program_files(path: Path, single: bool = False) -> Iterator[tuple[Path, bytes | memoryview]]:
    """The files that hold the engine programs of a compiled file or bundle, and the bytes of each program.
    UnsupportedError for a model, and where a `single` one is asked for and there are several."""
    if not path.is_dir():
        yield path, path.read_bytes()
        return
    found = bundled_programs(path) if container(path) == "bundle" else iter(())
    first = next(found, None)
    if first is None:
        raise UnsupportedError(str(path), "this folder is no bundle of compiled programs",
                               remedy="name a .hwx, a .anec or a .ane bundle")
    more = len(list(found)) if single else 0
    if more:
        raise UnsupportedError(str(path), "one output file holds one program", limit=1, found=1 + more,
                               remedy=f"name one of them, for example {first[0]}")
    yield first
    yield from found


def _read(data: bytes | memoryview, file: Path) -> Program:
    """The program of a bundle, with the file it is from. Errors name the file."""
    try:
        program = read_hwx(data)
    except AneError as error:
        raise error.within(file) from None
    program.origin["file"] = str(file)
    return program


def parse_shape(text: str) -> tuple[str, tuple[Extent, ...]]:
    """`x=1x3x224x224` as name and extents; of `ids=1x{32,64,128}` or `ids=1x{32:128:32}` the last one has alternatives.
    ArgumentTypeError, which argparse reports, for any other form."""
    name, equals, extents = text.rpartition("=")
    shape = [_extent(extent) for extent in extents.split("x")]
    found = [extent for extent in shape if extent is not None]
    if not equals or not name or len(found) < len(shape):
        raise expected("a shape such as x=1x3x224x224, or one that changes such as ids=1x{32,64,128} or "
                       "ids=1x{32:128:32}", text)
    return name, tuple(found)


def parse_size(text: str) -> int:
    """`500M` as bytes. ArgumentTypeError, which argparse reports, for any other form."""
    found = re.fullmatch(r"(\d{1,18})([KMG]?)i?B?", text)
    if found is None:
        raise expected("a size such as 500M or 2G", text)
    return int(found[1]) * UNITS[found[2]]


def parse_value(text: str) -> tuple[str, float | list[float]]:
    """`sr=16000` as name and number, `scales=0.7,1,0.8` as name and numbers. ArgumentTypeError for any other form."""
    name, _, numbers = text.rpartition("=")
    found = [_number(number) for number in numbers.split(",")]
    known = [number for number in found if number is not None]
    if not name or len(known) < len(found):
        raise expected("a number such as sr=16000, or several between commas", text)
    return name, known[0] if len(known) == 1 else known


def _number(text: str) -> float | None:
    """A finite number: a float where the text has a point or an exponent, else whole; None for any other text."""
    number = finite(text)
    return number if number is None or set(text.lower()) & set(".e") else int(text)


def _extent(text: str) -> Extent | None:
    """A number of 1 or more, or the alternatives between braces: numbers, or first, last and step. None for others."""
    if text[:1] != "{" or text[-1:] != "}":
        return _whole(text)
    steps = text[1:-1].split(":")
    numbers = [_whole(part) for part in (steps if len(steps) == 3 else text[1:-1].split(","))]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    found = range(known[0], known[1] + 1, known[2]) if len(steps) == 3 else known
    return tuple(found) if 0 < len(found) <= MOST_ALTERNATIVES else None


def _whole(text: str) -> int | None:
    """A number of 1 or more that a dimension can have."""
    return int(text) if text.isdecimal() and len(text) <= LONGEST_EXTENT and 0 < int(text) < LARGEST_EXTENT else None


def parse_padding(text: str) -> tuple[str, float]:
    """`ids=0` as name and number. ArgumentTypeError, which argparse reports, for any other form."""
    name, equals, number = text.rpartition("=")
    filling = finite(number)
    if not equals or not name or filling is None:
        raise expected("NAME=NUMBER", text)
    return name, filling


def parse_host(text: str) -> bool | str:
    """What the host may compute, as `openane.compile` takes it: all, none, or names between commas."""
    return {"all": True, "none": False}.get(text, text)


def parse_sample(text: str) -> tuple[str, Path]:
    """`NAME=FILE.npy` as name and path; a file or folder of samples, which has all inputs, without a name."""
    return ("", Path(text)) if "=" not in text or Path(text).exists() else parse_input(text)


def parse_input(text: str) -> tuple[str, Path]:
    """`NAME=FILE.npy` as name and path. ArgumentTypeError, which argparse reports, for any other form."""
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise expected("NAME=FILE.npy", text)
    return name, Path(file)
