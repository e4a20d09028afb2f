"""The text of a task back to its words; every mistake is an error at its line and column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from openane.chips import Chip, TaskFields
from openane.chips.runs import VIRTUAL
from openane.errors import ProgramError
from openane.program.listing.forms import (
    UNSET,
    Runs,
    body_words,
    defaults,
    header_addresses,
    header_sizes,
    usual_runs,
)
from openane.program.listing.lexer import Line, ListingToken, TextError, integer, number
from openane.program.listing.tasks import UNDESCRIBED, bank_of
from openane.record_classes import dataclass
from openane.registers import Bank, Field, FieldError, Register, Value

LARGEST_TASK = 4096  # words; no generation's size field reaches this
WORD = (1 << 32) - 1

_RANGE = re.compile(r"(\w+)\[(\d{1,4})\.\.(\d{1,4})\](\.\w+)?", re.ASCII)
_RUN = re.compile(r"x(\d{1,4})", re.ASCII)
_HEX_WORD = re.compile(r"[0-9a-fA-F]{8}", re.ASCII)


def parse_task(chip: Chip | None, size: int, head: ListingToken, lines: Sequence[Line]) -> tuple[int, ...]:
    """The words of a task of `size` words whose text is `lines` (those below its `task` line, which is `head`).

    TextError names the token that is wrong. Without a chip only the form of raw words can be read.
    """
    if not 0 < size <= LARGEST_TASK:
        raise head.error(f"a task has 1 to {LARGEST_TASK} words, not {size}")
    if lines and lines[0].first.text == "words":
        return _raw_words(size, head, lines)
    if chip is None:
        raise head.error("the generation in the first line has no register tables here: only raw `words` can be read")
    return _Parser(chip, size, head).read(lines)


def _raw_words(size: int, head: ListingToken, lines: Sequence[Line]) -> tuple[int, ...]:
    words: list[int] = []
    for line in lines:
        if line.first.text != "words":
            raise line.first.error("a task shown as words has nothing else", "'words'")
        for token in line.tokens[1:]:
            if token.quoted or not _HEX_WORD.fullmatch(token.text):
                raise token.error("a word is eight hexadecimal digits", "for example 0000a1c0")
            words.append(int(token.text, 16))
    if len(words) != size:
        raise head.error(f"the task states {size} words, {len(words)} follow")
    return tuple(words)


@dataclass
class _Parser:
    """One task being read."""

    chip: Chip
    size: int
    head: ListingToken
    values: dict[str, Value] = field(default_factory=dict)
    rest: dict[str, int] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    places: dict[str, ListingToken] = field(default_factory=dict)

    def read(self, lines: Sequence[Line]) -> tuple[int, ...]:
        """The words."""
        block, records, stated = "", None, self.head
        for line in lines:
            first = line.first
            if first.text == "records":
                records, stated = self._records(line), first
            elif len(line.tokens) == 1:
                block = self._block(first)
            elif not block:
                raise first.error("a field before the name of its block", "a block's name on a line of its own")
            else:
                self._member(block, line)
        return self._encode(self._runs(records, stated))

    # Lines

    def _block(self, token: ListingToken) -> str:
        known = [b.name for bank in (self.chip.header, self.chip.bank) for b in bank.blocks]
        if token.text not in known and token.text != UNDESCRIBED:
            raise token.unknown("block", known)
        return token.text

    def _records(self, line: Line) -> Runs:
        tokens = line.tokens[1:]
        if not tokens or len(tokens) % 2:
            raise line.end_error("runs are written as an address and a count", "'0x4800 x18'")
        runs = []
        for address, count in zip(tokens[::2], tokens[1::2], strict=True):
            match = _RUN.fullmatch(count.text)
            if match is None or not int(match[1]):
                raise count.error("the count of a run is x and a number from 1 on", "for example x18")
            runs.append((integer(address, "the address of a run", 0, WORD), int(match[1])))
        if body_words(tuple(runs)) >= self.size:
            raise line.first.error(f"the runs take {body_words(tuple(runs))} words, the task states {self.size}")
        return tuple(runs)

    def _member(self, block: str, line: Line) -> None:
        first = line.first
        if block == UNDESCRIBED:
            self._address(first, line.rest(1, "@0x13844 0x1")[0])
        elif first.text == "rest":
            name, bits = line.rest(2, "rest Register 0x1")
            for full in self._expand(block, name):
                if full not in bank_of(self.chip, block).by_name:
                    raise self._unknown_register(block, name)
                self._set(self.rest, full, integer(bits, "rest", 0, WORD), name)
        else:
            value = line.rest(1, "Register.Field value")[0]
            for full in self._expand(block, first):
                self._field(block, full, first, value)

    def _address(self, name: ListingToken, bits: ListingToken) -> None:
        if not name.text.startswith("@"):
            raise name.error("a word without a register is named by its address", "for example @0x13844")
        digits = name._replace(text=name.text[1:], column=name.column + 1)
        address = integer(digits, "the address", 0, WORD)
        if address in self.chip.bank.by_address:
            raise name.error(f"this address is register {self.chip.bank.by_address[address][0]}; use its name")
        self._set(self.rest, f"@{address:#x}", integer(bits, "the word", 0, WORD), name)

    def _field(self, block: str, full: str, name: ListingToken, value: ListingToken) -> None:
        bank = bank_of(self.chip, block)
        register_name, _, field_name = full.rpartition(".")
        if register_name not in bank.by_name:
            raise self._unknown_register(block, name)
        register = bank.by_name[register_name][1]
        known = {f.name: f for f in register.fields}
        if field_name not in known:
            within = name._replace(text=field_name, column=name.column + len(name.text) - len(field_name))
            raise within.unknown(f"field of {register_name}", known)
        if value.text == UNSET and not value.quoted:
            self.unset.add(full)
            self.places[full] = name
            return
        self._set(self.values, full, _value(known[field_name], register_name, value), name)

    def _set(self, table: dict[str, Value] | dict[str, int], full: str, value: Value, name: ListingToken) -> None:
        if full in table:
            raise name.error(f"{full} is stated twice")
        table[full] = value  # type: ignore[assignment]
        self.places[full] = name

    def _expand(self, block: str, name: ListingToken) -> list[str]:
        """Full names of a member; `Register[0..15].Field` is sixteen."""
        match = None if name.quoted else _RANGE.fullmatch(name.text)
        if match is None:
            return [f"{block}.{name.text}"]
        count = self._register(block, match[1], name).count
        start, last = int(match[2]), int(match[3])
        if not start <= last < count:
            raise name.error("a range outside the array", f"0..{count - 1}")
        return [f"{block}.{match[1]}[{i}]{match[4] or ''}" for i in range(start, last + 1)]

    def _register(self, block: str, name: str, token: ListingToken) -> Register:
        for b in bank_of(self.chip, block).blocks:
            if b.name == block:
                for register in b.registers:
                    if register.name == name:
                        return register
        raise self._unknown_register(block, token)

    def _unknown_register(self, block: str, token: ListingToken) -> TextError:
        known = next((b for b in bank_of(self.chip, block).blocks if b.name == block), None)
        names = [r.name if r.count == 1 else f"{r.name}[0..{r.count - 1}]" for r in known.registers] if known else []
        return token._replace(text=token.text.partition(".")[0]).unknown(f"register of {block}", names)

    # Words

    def _runs(self, records: Runs | None, stated: ListingToken) -> Runs:
        runs = usual_runs(self.chip, self.size) if records is None else records
        if runs is None:
            raise stated.error(f"a task of {self.size} words has no usual register runs: state them",
                               "a line 'records ADDRESS xCOUNT ...'")
        left = self.size - body_words(runs)
        if left not in header_sizes(self.chip):
            raise stated.error(f"{self.size} words less {body_words(runs)} of the runs leave {left} for the header",
                               " or ".join(map(str, sorted(header_sizes(self.chip)))))
        return runs

    def _encode(self, runs: Runs) -> tuple[int, ...]:
        header = header_addresses(self.chip, self.size - body_words(runs))
        body = self._addresses(runs)
        self._check_written(self.chip.header, set(header), "the header of this task ends before it")
        self._check_written(self.chip.bank, set(body), "no run of this task writes it")
        filled = defaults(self.chip.header, header, self.rest) | defaults(self.chip.bank, body, self.rest)
        values = {name: value for name, value in (filled | self.values).items() if name not in self.unset}
        try:
            words = tuple(self.chip.encode(TaskFields(values, self.rest, runs)))
        except FieldError as error:
            place = self.places.get(error.field or "", self.head)
            raise place.error(str(error)) from None
        except ProgramError as error:
            raise self.head.error(str(error)) from None
        if len(words) != self.size:
            raise self.head.error(f"the task states {self.size} words, its fields make {len(words)}")
        return words

    def _addresses(self, runs: Runs) -> tuple[int, ...]:
        """Addresses of the registers the task writes, as the heads of its runs say."""
        try:
            return self.chip.addresses(TaskFields(self.values, self.rest, runs))
        except ProgramError as error:
            raise self.head.error(str(error)) from None

    def _check_written(self, bank: Bank, written: set[int], reason: str) -> None:
        for full, token in self.places.items():
            name = full if full in self.rest else full.rpartition(".")[0]
            address = bank.by_name[name][0] if name in bank.by_name else VIRTUAL  # what heads say has no address
            if address < VIRTUAL and address not in written:
                raise token.error(f"{name} is not part of this task: {reason}")
            if name.startswith("@") and bank is self.chip.bank and int(name[1:], 16) not in written:
                raise token.error(f"address {name[1:]} is not part of this task: {reason}")


def _value(kind: Field, register: str, token: ListingToken) -> Value:
    """The value a token spells for a field, checked against its range."""
    what = f"{register}.{kind.name}"
    value: Value
    if kind.kind == "enum":
        if token.quoted or token.text not in kind.values:
            raise token.unknown(f"value of {what}", kind.values)
        value = token.text
    elif kind.kind in ("fp16", "fp32"):
        value = number(token, what)
    else:
        value = integer(token, what, *kind.range)
    try:
        kind.encode(value, register)
    except FieldError as error:
        raise token.error(str(error)) from None
    return value
