"""Text back to the file it describes, byte for byte."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from openane.chips import Chip, described_generations, get_chip
from openane.errors import FormatError
from openane.formats.listing.claims import LONGEST_GAP
from openane.formats.listing.dis import SUFFIX, VERSION
from openane.formats.listing.items import RECORDS, parse_bytes, parse_record
from openane.program.listing import Line, ListingToken, TextError, integer, parse_task, read_lines, unquoted
from openane.record_classes import dataclass

LARGEST_FILE = 1 << 32
LARGEST_TEXT = 1 << 30
CONTAINERS = ("hwx", "anec")
DIRECTIVES = ("file", "sidecar", "text", "task", *RECORDS, "string", "bytes", "data")

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

ReadSidecar = Callable[[str], bytes]
"""Gives the content of the sidecar of a name; OSError when there is none."""


def assemble_file(path: Path) -> bytes:
    """The file that the text at `path` describes; its sidecar is looked for beside it.

    TextError (a FormatError with line and column) names what is wrong with the text.
    """
    if path.stat().st_size > LARGEST_TEXT:
        raise FormatError(f"{path.name} is too long for a text", expected=f"at most {LARGEST_TEXT} bytes",
                          found=path.stat().st_size)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("the text is not UTF-8", offset=error.start) from None
    return assemble(text, lambda name: (path.parent / name).read_bytes())


def assemble(text: str, read_sidecar: ReadSidecar | None = None) -> bytes:
    """The file that `text` describes. TextError when it breaks a rule, with line and column."""
    lines = list(read_lines(text))
    if not lines:
        raise TextError("the text is empty", 1, 1, expected=f"'openane {VERSION} hwx h13' on the first line",
                        found="nothing")
    assembly = _Assembly(_chip(lines[0]), read_sidecar)
    position = 1
    while position < len(lines):
        end = position + 1
        while end < len(lines) and lines[end].member:
            end += 1
        assembly.directive(lines[position], lines[position + 1:end])
        position = end
    return assembly.finish(lines[-1])


def _chip(line: Line) -> Chip | None:
    form = f"openane {VERSION} hwx h13"
    if line.first.text != "openane" or line.member:
        raise line.first.error("the first line says what the text is", f"{form!r}")
    version, container, chip = line.rest(3, form)
    if integer(version, "the version") != VERSION:
        raise version.error("this version of the text form is not known here", VERSION)
    if container.text not in CONTAINERS:
        raise container.unknown("container", CONTAINERS)
    return get_chip(chip.text) if chip.text in described_generations() else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes at an offset, and the token that states them."""

    offset: int
    data: bytes
    token: ListingToken


@dataclass
class _Assembly:
    """What has been read so far."""

    chip: Chip | None
    read_sidecar: ReadSidecar | None
    size: int | None = None
    text: int | None = None
    sidecar: bytes | None = None
    pieces: list[_Piece] = field(default_factory=list)

    def directive(self, line: Line, members: Sequence[Line]) -> None:
        """Reads one directive with the lines that belong to it."""
        first = line.first
        if line.member:
            raise first.error("this line begins with a blank but belongs to nothing", "a directive at the margin")
        if first.quoted or first.text not in DIRECTIVES:
            raise first.unknown("directive", DIRECTIVES)
        if first.text in RECORDS:
            self._record(line, members)
        elif first.text in ("task", "string", "bytes"):
            {"task": self._task, "string": self._string, "bytes": self._bytes}[first.text](line, members)
        else:
            if members:
                raise members[0].first.error(f"nothing belongs under {first.text!r}", "a directive at the margin")
            {"file": self._file, "sidecar": self._sidecar, "text": self._text, "data": self._data}[first.text](line)

    def _file(self, line: Line) -> None:
        if self.size is not None:
            raise line.first.error("the size of the file is stated twice")
        self.size = integer(line.rest(1, "file SIZE")[0], "the size of the file", 0, LARGEST_FILE)

    def _text(self, line: Line) -> None:
        self.text = _offset(line.rest(1, "text OFFSET")[0])

    def _sidecar(self, line: Line) -> None:
        form = 'sidecar "NAME" SIZE bytes sha256 DIGEST'
        if len(line.tokens) == 4:  # without a digest it is taken as it is
            name, size, _ = line.rest(3, form)
            digest = None
        else:
            name, size, _, _, digest = line.rest(5, form)
        if self.sidecar is not None:
            raise line.first.error("a text has one sidecar")
        data = self._read(name, unquoted(name, "the sidecar's name"))
        if len(data) != integer(size, "the size of the sidecar", 0, LARGEST_FILE):
            raise size.error(f"the sidecar has {len(data)} bytes, not what is stated", len(data))
        if digest is not None:
            found = hashlib.sha256(data).hexdigest()
            if not _DIGEST.fullmatch(digest.text):
                raise digest.error("a SHA-256 is 64 lowercase hexadecimal digits", "64 digits")
            if digest.text != found:
                raise digest.error(f"the sidecar is not the one this text was written with: its SHA-256 is {found}; "
                                   "to take it as it is, remove 'sha256' and the digest from this line")
        self.sidecar = data

    def _read(self, token: ListingToken, name: bytes) -> bytes:
        try:
            plain = name.decode()
        except UnicodeDecodeError:
            raise token.error("the sidecar's name is not UTF-8") from None
        if not plain or "/" in plain or "\\" in plain or "\0" in plain or plain in (".", ".."):
            raise token.error("the sidecar lies beside the text: a file name without folders", '"name.bin"')
        if self.read_sidecar is None:
            raise token.error("the text needs its sidecar, and none was given")
        try:
            return self.read_sidecar(plain)
        except OSError as error:
            raise token.error(f"the sidecar cannot be read ({error.strerror}): it is written beside the text by "
                              "'ane dis FILE -o OUT'") from None

    def _data(self, line: Line) -> None:
        offset, word, size, from_word, start = line.rest(5, "data OFFSET size SIZE from OFFSET")
        for token, expected in ((word, "size"), (from_word, "from")):
            if token.text != expected:
                raise token.error("data is 'data OFFSET size SIZE from OFFSET'", f"{expected!r}")
        if self.sidecar is None:
            raise line.first.error("data comes from a sidecar, and none is named above")
        count = integer(size, "the size", 0, LARGEST_FILE)
        first = integer(start, "the offset in the sidecar", 0, len(self.sidecar))
        if first + count > len(self.sidecar):
            raise size.error(f"the sidecar has {len(self.sidecar)} bytes", f"at most {len(self.sidecar) - first:#x}")
        self._add(_offset(offset), self.sidecar[first:first + count], line.first)

    def _task(self, line: Line, members: Sequence[Line]) -> None:
        form = "task NUMBER at OFFSET, SIZE words"
        number, at, offset, size, words = line.rest(5, form)
        integer(number, "a task's number")
        for token, expected in ((at, "at"), (words, "words")):
            if token.text != expected:
                raise token.error(f"a task begins {form!r}", f"{expected!r}")
        if self.text is None:
            raise line.first.error("a task before the line that says where the text begins", "'text OFFSET' above")
        data = parse_task(self.chip, integer(size, "a task's size"), size, members)
        self._add(self.text + _offset(offset), b"".join(word.to_bytes(4, "little") for word in data), line.first)

    def _string(self, line: Line, members: Sequence[Line]) -> None:
        if len(line.tokens) < 2:
            raise line.end_error("text has a place", 'string OFFSET "text"')
        pieces = [*line.tokens[2:], *(token for member in members for token in member.tokens)]
        self._add(_offset(line.tokens[1]), b"".join(unquoted(p, "text") for p in pieces), line.first)

    def _bytes(self, line: Line, members: Sequence[Line]) -> None:
        self._add(_offset(line.rest(1, "bytes OFFSET")[0]), parse_bytes(members), line.first)

    def _record(self, line: Line, members: Sequence[Line]) -> None:
        kind = line.first
        if len(line.tokens) < 2:
            raise line.end_error("a record has a place", f"'{kind.text} OFFSET'")
        inline = line.tokens[2:]
        if len(inline) % 2:
            raise line.end_error("fields come in pairs of a name and a value", "a value")
        pairs: list[tuple[ListingToken, Sequence[ListingToken]]] = [
            (name, (value,)) for name, value in zip(inline[::2], inline[1::2], strict=True)]
        pairs += [(member.first, member.tokens[1:]) for member in members]
        self._add(_offset(line.tokens[1]), parse_record(kind.text, pairs, kind), kind)

    def _add(self, offset: int, data: bytes, token: ListingToken) -> None:
        self.pieces.append(_Piece(offset, data, token))

    def finish(self, last: Line) -> bytes:
        """The bytes, once every statement is known not to overlap another and to lie in the file."""
        if self.size is None:
            raise last.end_error("the size of the file is not stated", "a line 'file SIZE'")
        position, before = 0, None
        for piece in sorted(self.pieces, key=lambda p: p.offset):
            if piece.offset < position and piece.data:
                raise piece.token.error(f"bytes {piece.offset:#x} to {piece.offset + len(piece.data):#x} overlap what "
                                        f"line {before.line if before else 0} states (to {position:#x})")
            if piece.offset + len(piece.data) > self.size:
                raise piece.token.error(f"bytes {piece.offset:#x} to {piece.offset + len(piece.data):#x} lie outside "
                                        f"the file of {self.size:#x} bytes")
            if piece.data:
                _check_gap(position, piece.offset, piece.token)
                position, before = piece.offset + len(piece.data), piece.token
        _check_gap(position, self.size, last.first)
        out = bytearray(self.size)
        for piece in self.pieces:
            out[piece.offset:piece.offset + len(piece.data)] = piece.data
        return bytes(out)


def _offset(token: ListingToken) -> int:
    return integer(token, "an offset", 0, LARGEST_FILE)


def _check_gap(start: int, end: int, token: ListingToken) -> None:
    if end - start > LONGEST_GAP:
        raise token.error(f"nothing states bytes {start:#x} to {end:#x}; at most {LONGEST_GAP:#x} in a row may be left "
                          "to be zero")


__all__ = ["SUFFIX", "assemble", "assemble_file"]
