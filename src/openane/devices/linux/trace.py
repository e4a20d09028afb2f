"""A trace: everything a run asked of the driver, what the driver answered, and what memory held before and after.

A file is a zip archive: `trace.jsonl` (a header line, then a line per event) and `blobs/SHA256`, the contents of buffer
objects, each stored once. Structures are the hex bytes of `interface`; descriptors and buffer objects are numbered in
the order they were opened and made, so that traces of two machines can be compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from openane.archives import check_member
from openane.devices.linux.interface import BO_INIT, NAMES, STRUCTURES, SUBMIT, BufferInit
from openane.errors import DeviceError, FormatError
from openane.record_classes import dataclass

VERSION = 1
FORMAT = "openane trace of the Linux accel driver"
LINES = "trace.jsonl"
LARGEST_BLOB = 1 << 32
LARGEST_TEXT = 1 << 28
LARGEST_ERROR = 4095
"""The largest errno of Linux."""
KINDS = ("open", "version", "ioctl", "map", "close")


@dataclass(frozen=True, slots=True)
class Event:
    """One call. `file` numbers the descriptor. `argument` and `answer` are a structure's bytes before and after;
    `error` is the errno of a failure. `before` and `after` name, per buffer object, the blob it held where that was
    not known yet. `offset`: the cookie of a map; `path` and `texts`: what open was given and version answered."""

    kind: str
    file: int
    request: int = 0
    argument: bytes = b""
    answer: bytes = b""
    error: int = 0
    length: int = 0
    offset: int = 0
    path: str = ""
    texts: tuple[str, ...] = ()
    before: Mapping[int, str] = field(default_factory=dict)
    after: Mapping[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    def describe(self) -> str:
        """The call in a line."""
        if self.kind == "ioctl":
            return f"{NAMES.get(self.request, hex(self.request))} {self.argument.hex()}"
        if self.kind == "map":
            return f"map {self.length} bytes at {self.offset:#x}"
        return f"{self.kind} {self.path}".strip()

    def line(self) -> dict[str, Any]:
        """As JSON; what says nothing is left out."""
        plain: dict[str, Any] = {"kind": self.kind, "file": self.file}
        for name in ("request", "error", "length", "offset", "path", "seconds"):
            if getattr(self, name):
                plain[name] = getattr(self, name)
        for name in ("argument", "answer"):
            if getattr(self, name):
                plain[name] = getattr(self, name).hex()
        for name in ("before", "after"):
            if getattr(self, name):
                plain[name] = {str(handle): blob for handle, blob in getattr(self, name).items()}
        return plain | ({"texts": list(self.texts)} if self.texts else {})


@dataclass(frozen=True, slots=True)
class Difference:
    """Event number `event` of a trace (from 0) went otherwise."""

    event: int
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"event {self.event}, {self.what}: recorded {self.expected}, found {self.found}"


class TraceWriter:
    """Writes a trace; the file appears under its name when it is closed, and not at all when something failed."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """`header` is anything about the machine that helps to read the trace. DeviceError, here and later, when the
        file cannot be written."""
        self._path, self._header = path, dict(header)
        if path.is_dir():
            raise DeviceError(f"the trace {path} cannot be written: a folder is there")
        self._part = path.with_name(f".{path.name}.{os.getpid()}")
        with self._writing():
            self._zip = zipfile.ZipFile(self._part, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._known: set[str] = set()
        self._events: list[Event] = []

    def blob(self, data: bytes | memoryview) -> str:
        """Keeps some bytes; their name."""
        name = hashlib.sha256(data).hexdigest()
        if name not in self._known:
            with self._writing(), self._zip.open(f"blobs/{name}", "w", force_zip64=True) as file:
                file.write(data)
            self._known.add(name)
        return name

    def add(self, event: Event) -> None:
        """Appends an event."""
        self._events.append(event)

    def close(self) -> None:
        """Puts the file in its place."""
        lines = [{"format": FORMAT, "version": VERSION, **self._header}, *(event.line() for event in self._events)]
        try:
            with self._writing():
                self._zip.writestr(LINES, "".join(json.dumps(line) + "\n" for line in lines))
                self._zip.close()
                os.replace(self._part, self._path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Leaves nothing."""
        with suppress(OSError):  # the rest of a file that goes
            self._zip.close()
        self._part.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """OSError as DeviceError: an errno would be taken for the driver's."""
        try:
            yield
        except OSError as error:
            raise DeviceError(f"the trace {self._path} cannot be written: {error.strerror or error}") from None


class Trace:
    """A trace that was read. `header` is its first line, `events` the rest."""

    def __init__(self, path: Path) -> None:
        """FormatError says what is wrong with the file."""
        self.path = path
        with ExitStack() as stack:  # it closes the file where nobody will
            self._read(stack)
            stack.pop_all()

    def _read(self, stack: ExitStack) -> None:
        path = self.path
        try:
            self._zip = stack.enter_context(zipfile.ZipFile(path))
            lines = [json.loads(line) for line in self._member(LINES, LARGEST_TEXT).decode().splitlines()]
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
        except (zipfile.BadZipFile, KeyError, ValueError, zlib.error, NotImplementedError, RecursionError,
                RuntimeError, EOFError) as error:
            raise FormatError(f"{path} is not a trace: {error}") from None
        if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
            raise FormatError(f"{path} is not a trace", expected=FORMAT, found=str(lines[:1])[:80])
        if lines[0].get("version") != VERSION:
            raise FormatError(f"{path} has another version", expected=VERSION, found=lines[0].get("version"))
        self.header: dict[str, Any] = lines[0]
        self.events = tuple(_event(line, number, path) for number, line in enumerate(lines[1:], 2))

    def _member(self, name: str, largest: int) -> bytes:
        """The bytes of a member. FormatError where they are more than `largest`, ValueError where the archive claims
        more than there are; and what zipfile raises."""
        about = self._zip.getinfo(name)
        if about.file_size > largest:
            raise FormatError(f"{self.path}: {name} is too large", expected=f"at most {largest} bytes",
                              found=about.file_size)
        check_member(about, self.path.stat().st_size)
        return self._zip.read(about)

    @property
    def submissions(self) -> int:
        """How many runs it holds."""
        return sum(event.kind == "ioctl" and event.request == SUBMIT for event in self.events)

    def blob(self, name: str) -> bytes:
        """The bytes of a blob. FormatError when they are not there or not those that were written."""
        try:
            data = self._member(f"blobs/{name}", LARGEST_BLOB)
        except (KeyError, ValueError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError,
                EOFError) as error:  # ValueError: also names where blobs lie, which are decoded again
            raise FormatError(f"{self.path}: blob {name} cannot be read: {error}") from None
        if hashlib.sha256(data).hexdigest() != name:
            raise FormatError(f"{self.path}: blob {name} does not hold what its name says")
        return data

    def mapped(self, number: int, file: int, offset: int) -> int:
        """The buffer object that event `number` maps at an offset: made by the last BO_INIT before it. FormatError
        when there is none."""
        for event in reversed(self.events[:number]):
            if event.kind == "ioctl" and event.request == BO_INIT and event.file == file and event.answer:
                made = BufferInit.unpack(event.answer)
                if made.offset == offset:
                    return made.handle
        raise FormatError(f"{self.path}: event {number} maps offset {offset:#x}, which no buffer object of file {file} "
                          "has")

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()


def first_difference(found: memoryview, expected: bytes, step: int = 1 << 20) -> int | None:
    """The first byte in which memory is not `expected`, or None. Memory beyond `expected` does not count."""
    for start in range(0, len(expected), step):
        mine, other = bytes(found[start:start + step])[:len(expected) - start], expected[start:start + step]
        if mine != other:
            return start + next((k for k, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b),
                                min(len(mine), len(other)))
    return None


def _event(line: Any, number: int, path: Path) -> Event:
    where = f"{path}: line {number} of the trace"
    if not isinstance(line, dict) or line.get("kind") not in KINDS:
        raise FormatError(f"{where} is no event", expected=" or ".join(KINDS), found=str(line)[:80])
    try:
        event = Event(
            kind=line["kind"], file=_number(line["file"]), error=_number(line.get("error", 0), LARGEST_ERROR),
            **{name: _number(line.get(name, 0)) for name in ("request", "length", "offset")},
            path=str(line.get("path", "")), texts=tuple(map(str, _list(line.get("texts", [])))),
            argument=bytes.fromhex(line.get("argument", "")), answer=bytes.fromhex(line.get("answer", "")),
            before=_blobs(line.get("before", {})), after=_blobs(line.get("after", {})),
            seconds=float(line.get("seconds", 0.0)))
        _check(event)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"{where} cannot be read: {error}") from None
    return event


def _check(event: Event) -> None:
    """ValueError for a structure that has not its size, and for memory that no submission looked at."""
    known = STRUCTURES.get(event.request)
    if event.kind == "ioctl" and known is not None:
        for data in (event.argument,) if event.error else (event.argument, event.answer):
            if len(data) != known.length():
                raise ValueError(f"the structure of {NAMES[event.request]} has {known.length()} bytes, not {len(data)}")
    if (event.before or event.after) and (event.kind != "ioctl" or event.request != SUBMIT):
        raise ValueError("only a submission is recorded with the memory before and after it")


def _number(value: Any, largest: int = (1 << 64) - 1) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError(f"{str(value)[:80]} is no whole number from 0 to {largest}")
    return value


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return value


def _blobs(value: Any) -> dict[int, str]:
    return {int(handle): str(name) for handle, name in value.items()}
