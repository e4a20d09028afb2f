"""Which item describes which bytes of a file: first come, first served; what nobody claims is a gap."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections.abc import Iterator

from openane.chips import Chip
from openane.errors import FormatError
from openane.formats.listing.items import Item, ListingPart, bytes_item, record_item, string_item
from openane.formats.macho.commands import NAME_LIMIT
from openane.formats.reader import ByteReader, Record
from openane.program import Task
from openane.program.listing import TextError, parse_task, read_lines, rest_bits, task_lines
from openane.program.listing.lexer import comment
from openane.program.listing.tasks import raw_lines
from openane.program.listing.words import Names

SHORT = 256          # bytes shown in hexadecimal; longer pieces go to the sidecar
SHORT_ZERO = 1 << 15  # zero bytes that need not be stated as such
LONGEST_GAP = 1 << 16  # zero bytes a listing may leave unstated in a row
MOST_PIECES = 64     # runs a gap may be cut into

_PIECE = re.compile(rb"[^\0]+(?:\0{1,15}[^\0]+)*")


class Claims:
    """Items of one file, none overlapping another."""

    def __init__(self, data: bytes, chip: Chip | None, names: Names) -> None:
        self.data, self.chip, self.text_start = data, chip, 0
        self.tasks = 0
        self.rest_bits = 0
        self.raw_tasks = 0
        self._names = names
        self._items: list[Item] = []
        self._starts: list[int] = []

    def free(self, start: int, end: int) -> bool:
        """Whether no item has any of these bytes."""
        place = bisect_right(self._starts, start)
        before = place == 0 or self._items[place - 1].end <= start
        return before and (place == len(self._items) or self._starts[place] >= end)

    def add(self, item: Item | None) -> bool:
        """Adds an item unless its bytes are taken (or there is none), and says whether it did."""
        if item is None or not item.size or not self.free(item.offset, item.end):
            return False
        place = bisect_right(self._starts, item.offset)
        self._items.insert(place, item)
        self._starts.insert(place, item.offset)
        return True

    def record(self, kind: str, offset: int, structure: type[Record], note: str = "", inline: bool = False) -> None:
        """Claims a record, when it says all of its bytes."""
        if not self.free(offset, offset + structure.byte_size()):
            return
        with contextlib.suppress(FormatError):
            record = ByteReader(self.data).record(structure, offset, kind)
            self.add(record_item(kind, offset, self.data, record, comment(note), inline))

    def string(self, window: ByteReader, offset: int, limit: int = NAME_LIMIT) -> None:
        """Claims the text at `offset` of a window, with the NUL that ends it."""
        start = window.start + offset
        end = self.data.find(b"\0", start, min(window.end, start + limit + 1)) if offset >= 0 else -1
        if end >= 0:
            self.add(string_item(start, self.data[start:end + 1]))

    def text(self, window: ByteReader, note: str) -> None:
        """Claims a window that holds texts one after another."""
        self.add(string_item(window.start, self.data[window.start:window.end], note))

    def data_item(self, window: ByteReader, note: str, part: ListingPart = ListingPart.CONTAINER) -> None:
        """Claims bytes whose content is not described further: in hexadecimal when short."""
        piece = self.data[window.start:window.end]
        if not piece.strip(b"\0") and len(piece) <= SHORT_ZERO:
            return  # zero bytes need no statement
        if part is ListingPart.CONTAINER and _mostly_text(piece):
            self.add(string_item(window.start, piece, note))
        elif len(piece) <= SHORT:
            self.add(bytes_item(window.start, piece, part, note))
        else:
            self.add(Item(window.start, len(piece), part, None, note))

    def constants(self, window: ByteReader) -> None:
        """Claims the constant section."""
        self.data_item(window, "constants", ListingPart.CONSTANTS)

    def task(self, text: ByteReader, offset: int, words: int) -> bool:
        """Claims a task descriptor at `offset` of the text. False when its bytes are taken."""
        start = text.start + offset
        if not self.free(start, start + 4 * words):
            return False
        task = Task(text.words(offset, words, "a task"), offset)
        lines = tuple(task_lines(self.chip, self.tasks, task, self._names))
        if self.chip is None or not _says_all(self.chip, task, lines):
            lines = (lines[0], *raw_lines(task))
        if self.chip is not None:
            self.rest_bits += rest_bits(self.chip, task).bits
        self.raw_tasks += lines[-1].startswith("  words")
        self.tasks += 1
        return self.add(Item(start, task.size, ListingPart.TASK, lines))

    def finished(self) -> list[Item]:
        """All items by offset, the gaps between them filled: with bytes where they are not zero."""
        for start, end in list(self._gaps()):
            for item in _pieces(self.data, start, end):
                self.add(item)
        return list(self._items)

    def _gaps(self) -> Iterator[tuple[int, int]]:
        position = 0
        for item in self._items:
            if item.offset > position:
                yield position, item.offset
            position = item.end
        if position < len(self.data):
            yield position, len(self.data)


def _pieces(data: bytes, start: int, end: int) -> Iterator[Item]:
    """Items for what a gap holds. Zero bytes need none, unless there are very many in a row."""
    matches = _PIECE.finditer(data, start, end)
    spans = []
    for match in matches:
        spans.append(match.span())
        if len(spans) > MOST_PIECES:
            spans = [(spans[0][0], end)]
            break
    position = start
    for low, high in [*spans, (end, end)]:
        if low - position > LONGEST_GAP:
            yield Item(position, low - position, ListingPart.PADDING, None, "zero bytes")
        if high > low:
            short = high - low <= SHORT
            note = "no description"
            yield bytes_item(low, data[low:high], ListingPart.UNDESCRIBED, note) if short \
                else Item(low, high - low, ListingPart.UNDESCRIBED, None, note)
        position = high


def _mostly_text(data: bytes) -> bool:
    """Whether at least three of four bytes are printable ASCII or line breaks."""
    kept = data.translate(None, bytes(c for c in range(256) if not (32 <= c < 127 or c in b"\n\t")))
    return len(data) <= LONGEST_GAP and 4 * len(kept) >= 3 * len(data)


def _says_all(chip: Chip, task: Task, lines: tuple[str, ...]) -> bool:
    """Whether the text gives back the task."""
    head, *members = read_lines("\n".join(lines))
    try:
        return parse_task(chip, len(task.words), head.first, members) == task.words
    except TextError:
        return False
