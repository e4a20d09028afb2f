"""LZFSE, the compression of Apple's model files: decoding only, every length checked against the data and a limit.

A stream is blocks: stored bytes, LZVN (byte-oriented, for short data) and LZFSE proper, whose literals and matches are
entropy-coded by finite state tables and read backwards from the end of their section. The packages that decode it
build C code at installation; model descriptions are small, so plain Python serves.
"""

from __future__ import annotations

from itertools import accumulate

from openane.errors import FormatError
from openane.record_classes import dataclass

END, STORED, LZVN, COMPRESSED = b"bvx$", b"bvx-", b"bvxn", b"bvx2"

Table = list[tuple[int, int, int]]
"""Per state: bits to read, what is added to them for the next state, and the symbol."""


def decompress(data: bytes, limit: int) -> bytes:
    """The contents of an LZFSE stream. FormatError when it is malformed or holds more than `limit` bytes."""
    out = bytearray()
    position = 0
    while True:
        magic = data[position:position + 4]
        if magic == END:
            return bytes(out)
        if magic not in (STORED, LZVN, COMPRESSED):
            raise FormatError("not an LZFSE block", offset=position, expected="bvx$, bvx-, bvxn or bvx2",
                              found=magic.hex(" ") or "the end of the data")
        size = _number(data, position + 4)
        if len(out) + size > limit:
            raise FormatError("the LZFSE stream holds too much", offset=position, expected=f"at most {limit} bytes",
                              found=len(out) + size)
        before = len(out)
        position = _BLOCKS[magic](data, position + 8, size, out)
        if len(out) - before != size:
            raise FormatError("an LZFSE block of another length than it states", offset=position, expected=size,
                              found=len(out) - before)


def _number(data: bytes, position: int, size: int = 4) -> int:
    return int.from_bytes(_take(data, position, size), "little")


def _take(data: bytes, position: int, size: int) -> bytes:
    found = data[position:position + size]
    if len(found) != size:
        raise FormatError("the LZFSE stream ends early", offset=position, expected=f"{size} bytes",
                          found=f"{len(found)}")
    return found


def _stored(data: bytes, position: int, size: int, out: bytearray) -> int:
    out += _take(data, position, size)
    return position + size


def _match(out: bytearray, distance: int, length: int, position: int) -> None:
    """Appends `length` bytes that lie `distance` back; they may overlap what is appended."""
    if not 0 < distance <= len(out):
        raise FormatError("an LZFSE match reaches before the beginning", offset=position,
                          expected=f"a distance up to {len(out)}", found=distance)
    start = len(out) - distance
    piece = bytes(out[start:start + length])
    while len(piece) < length:
        piece += piece[:length - len(piece)]
    out += piece


# LZVN

def _lzvn(data: bytes, position: int, size: int, out: bytearray) -> int:
    payload = _number(data, position)
    end = position + 4 + payload
    block = _take(data, position + 4, payload)
    here, distance, target = 0, 0, len(out) + size
    while True:
        code = _number(block, here, 1)
        if code == 0x06:
            return end
        if code in (0x0E, 0x16):
            here += 1
            continue
        literals, length, distance, here = _operation(block, here, code, distance)
        if len(out) + literals + length > target:
            raise FormatError("an LZVN block of another length than it states", offset=position, expected=size,
                              found="more")
        out += _take(block, here, literals)
        here += literals
        if length:
            _match(out, distance, length, position)


def _operation(block: bytes, here: int, code: int, distance: int) -> tuple[int, int, int, int]:
    """Literals, match length, distance, and where the literals begin, of the LZVN operation at `here`."""
    high, low = code >> 4, code & 15
    if high == 0xE:
        return (low, 0, distance, here + 1) if low else (_number(block, here + 1, 1) + 16, 0, distance, here + 2)
    if high == 0xF:
        return (0, low, distance, here + 1) if low else (0, _number(block, here + 1, 1) + 16, distance, here + 2)
    if high in (0xA, 0xB):
        word = _number(block, here + 1, 2)
        return code >> 3 & 3, ((code & 7) << 2 | word & 3) + 3, word >> 2, here + 3
    if high in (0x7, 0xD) or code in (0x1E, 0x26, 0x2E, 0x36, 0x3E):
        raise FormatError("not an LZVN operation", offset=here, found=hex(code), expected="a defined one")
    literals, length = code >> 6, (code >> 3 & 7) + 3
    if code & 7 == 6:
        return literals, length, distance, here + 1
    if code & 7 == 7:
        return literals, length, _number(block, here + 1, 2), here + 3
    return literals, length, (code & 7) << 8 | _number(block, here + 1, 1), here + 2


# LZFSE proper

_LENGTH_BITS = (*(0,) * 16, 2, 3, 5, 8)
_MATCH_BITS = (*(0,) * 16, 3, 5, 8, 11)
_DISTANCE_BITS = tuple(index // 4 for index in range(64))
_ALPHABETS = ((20, 64), (20, 64), (64, 256), (256, 1024))
"""Symbols and states of literal runs, match lengths, distances and literals."""
_SHORT = {0b00: (2, 0), 0b10: (2, 1), 0b001: (3, 2), 0b101: (3, 3),
          0b00011: (5, 4), 0b01011: (5, 5), 0b10011: (5, 6), 0b11011: (5, 7)}
"""Frequencies below 8: bits of the code, frequency."""


class _Backwards:
    """Bits of a section from its last one back; `unused` at the very end are filler."""

    def __init__(self, data: bytes, unused: int) -> None:
        self._data, self._left, self._bits, self._count = data, len(data), 0, 0
        if self.read(unused):
            raise FormatError("filler bits of an LZFSE section must be zero", expected=0, found="ones")

    def read(self, count: int) -> int:
        """The next `count` bits, most significant first."""
        while self._count < count:
            size = min(self._left, 32)
            if not size:
                raise FormatError("an LZFSE section ends early", expected=f"{count} bits", found=self._count)
            piece = int.from_bytes(self._data[self._left - size:self._left], "little")
            self._bits = (self._bits & (1 << self._count) - 1) << 8 * size | piece
            self._count += 8 * size
            self._left -= size
        self._count -= count
        return self._bits >> self._count & (1 << count) - 1


@dataclass
class _Coder:
    """A finite state decoder of values: symbol, then its extra bits."""

    table: Table
    state: int
    extra: tuple[int, ...]

    def __post_init__(self) -> None:
        self.base = list(accumulate((1 << bits for bits in self.extra), initial=0))

    def value(self, bits: _Backwards) -> int:
        if self.state >= len(self.table):
            raise FormatError("not a state of an LZFSE table", expected=f"below {len(self.table)}", found=self.state)
        count, delta, symbol = self.table[self.state]
        self.state = delta + bits.read(count)
        return self.base[symbol] + bits.read(self.extra[symbol])


def _table(frequencies: list[int], states: int) -> Table:
    """States in the order of symbols; a symbol of frequency f has f of them and needs log2(states / f) bits."""
    if sum(frequencies) > states:
        raise FormatError("LZFSE frequencies add up to too much", expected=f"at most {states}", found=sum(frequencies))
    table: Table = []
    for symbol, frequency in enumerate(frequencies):
        if not frequency:
            continue
        bits = states.bit_length() - frequency.bit_length()
        split = (2 * states >> bits) - frequency
        table += [(bits, (frequency + step << bits) - states, symbol) if step < split else
                  (bits - 1, step - split << bits - 1, symbol) for step in range(frequency)]
    return table


def _frequencies(data: bytes) -> list[list[int]]:
    """The four frequency tables of a block header; none at all stands for zeros."""
    found: list[int] = []
    bits, left = int.from_bytes(data, "little"), 8 * len(data)
    while len(found) < 360:
        code = bits & 31
        count, value = next((_SHORT[code & mask] for mask in (3, 7, 31) if code & mask in _SHORT and
                             _SHORT[code & mask][0] == mask.bit_length()), (0, 0))
        if not count:
            count, value = (8, 8 + (bits >> 4 & 15)) if code & 15 == 7 else (14, 24 + (bits >> 4 & 1023))
        if count > left and data:
            raise FormatError("LZFSE frequency tables end early", expected="360 entries", found=len(found))
        found.append(value if data else 0)
        bits, left = bits >> count, left - count
    if left >= 8:
        raise FormatError("bytes behind LZFSE frequency tables", expected="none", found=left // 8)
    starts = accumulate((symbols for symbols, _ in _ALPHABETS), initial=0)
    return [found[start:start + symbols] for start, (symbols, _) in zip(starts, _ALPHABETS, strict=False)]


def _compressed(data: bytes, position: int, size: int, out: bytearray) -> int:
    first, second, third = (_number(data, position + 8 * index, 8) for index in range(3))
    header = third & 0xFFFFFFFF
    if not 32 <= header <= 32 + 720:
        raise FormatError("not an LZFSE header", offset=position, expected="32 to 752 bytes", found=header)
    tables = [_table(frequencies, states) for frequencies, (_, states) in
              zip(_frequencies(_take(data, position + 24, header - 32)), _ALPHABETS, strict=True)]
    literal_size, match_size = first >> 20 & 0xFFFFF, second >> 40 & 0xFFFFF
    start = position - 8 + header
    literals = _literals(_Backwards(_take(data, start, literal_size), 7 - (first >> 60 & 7)), tables[3],
                         first & 0xFFFFF, [second >> 10 * index & 0x3FF for index in range(4)])
    bits = _Backwards(_take(data, start + literal_size, match_size), 7 - (second >> 60 & 7))
    coders = [_Coder(table, third >> 32 + 10 * index & 0x3FF, extra) for index, (table, extra) in
              enumerate(zip(tables, (_LENGTH_BITS, _MATCH_BITS, _DISTANCE_BITS), strict=False))]
    _matches(bits, coders, first >> 40 & 0xFFFFF, literals, out, len(out) + size)
    return start + literal_size + match_size


def _literals(bits: _Backwards, table: Table, count: int, states: list[int]) -> bytes:
    """`count` literals, by four decoders in turn."""
    found = bytearray()
    while len(found) < count:
        for index, state in enumerate(states):
            if state >= len(table):
                raise FormatError("not a state of an LZFSE table", expected=f"below {len(table)}", found=state)
            width, delta, symbol = table[state]
            states[index] = delta + bits.read(width)
            found.append(symbol)
    return bytes(found)


def _matches(bits: _Backwards, coders: list[_Coder], count: int, literals: bytes, out: bytearray, end: int) -> None:
    """`count` times a run of literals and a match; a distance of 0 repeats the last one."""
    used = distance = 0
    for _ in range(count):
        run, length, step = (coder.value(bits) for coder in coders)
        distance = step or distance
        if used + run > len(literals) or len(out) + run + length > end:
            raise FormatError("an LZFSE block holds more than it states", expected=f"{len(literals)} literals",
                              found=used + run)
        out += literals[used:used + run]
        used += run
        if length:
            _match(out, distance, length, 0)


_BLOCKS = {STORED: _stored, LZVN: _lzvn, COMPRESSED: _compressed}

