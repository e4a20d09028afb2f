"""Task descriptors as streams of register writes, for every generation: words to named fields and back.

A descriptor is a header, in some tasks one more header word, and runs of register writes. What the head of a run says
beside its addresses is kept as fields of two blocks that have no registers: `Slots` (the base-address slot an address
is relative to, by the name of the address) and `Runs` (by the number of the run). `Runs.Superseded` holds how a word
differs from the one that a later run of the same task writes to the same register.

Tasks repeat a few forms: which runs they have and what the heads of those say. Where the words of a form lie is worked
out once (`WordLayout`); encoding a task then puts the bits of every field in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache

from openane.chips.chip import TaskFields
from openane.chips.parts import TaskPart, part_of
from openane.chips.runs import FOLLOWING, RELATIVE, SLOT, VIRTUAL, LinkedHeads, RegisterRun, RunHeads
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.registers import Bank, Block, FieldError, Fields, Register, Value

MOST_RUNS = 1024   # of a task of 2047 words, each run taking two at least
MOST_WORDS = 2048
MOST_FORMS = 1 << 10
MOST_FIELDS = 1 << 16
SUPERSEDED = "Runs.Superseded"

Places = tuple[tuple[tuple[int, ...], Callable[[int], int]], ...]
"""For each of some fields: the positions of its register's words, and what makes the bits of a whole number."""

RUNS = Block("Runs", 2 * VIRTUAL, (
    Register("Dense", 0, (SLOT, RELATIVE), count=MOST_RUNS, doc="heads of dense runs that name a slot"),
    Register("Sparse", 4 * MOST_RUNS, (FOLLOWING,), count=MOST_RUNS, doc="heads of sparse runs"),
    Register("Superseded", 8 * MOST_RUNS, count=MOST_WORDS, doc="words that a later run writes again: the difference"),
), doc="Heads of the runs of register writes, by their number in the task")


def slots_block(pointers: Mapping[int, str]) -> Block:
    """The block `Slots`: per address register (byte address to name) the slot its address is relative to."""
    registers = (Register(name, address, (SLOT, RELATIVE), doc=f"head of the run that writes {address:#x}")
                 for address, name in sorted(pointers.items()))
    return Block("Slots", VIRTUAL, tuple(registers), doc="Base-address slots, stated by the heads of runs")


@dataclass(frozen=True, slots=True)
class WordLayout:
    """The words of tasks with the same runs: heads of runs written, all else zero; and for each register the positions
    of its words, the last of which counts."""

    words: tuple[int, ...]
    header: int
    runs: tuple[RegisterRun, ...]
    positions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class StreamFormat:
    """How a generation lays out its task descriptors.

    `header` describes all header words, the one that only some tasks have last; `extended` gives, for a decoded header,
    the readings to try: with that word or without. `rewrites`: a task may write a register more than once; the last
    word counts.
    """

    header: Bank
    body: Bank
    longest: int
    extended: Callable[[Fields], tuple[bool, ...]]
    heads: RunHeads = field(default_factory=LinkedHeads)
    pointers: Mapping[int, str] = field(default_factory=dict)
    rewrites: bool = False
    drafts: dict[Hashable, list[int]] = field(default_factory=dict, compare=False, repr=False)  # see `writer`

    @cached_property
    def header_words(self) -> int:
        """Header words every task has."""
        return len(self.header.by_address) - 1

    def decode(self, words: Sequence[int], only: Container[int] | None = None) -> TaskFields:
        """Named fields of a task descriptor (`only`: of these registers, by address, and the header). ProgramError when
        its runs do not end with it."""
        if not self.header_words < len(words) <= self.longest:
            raise ProgramError(f"a task has {self.header_words + 1} to {self.longest} words, not {len(words)}")
        values, rest = self.header.decode({4 * i: word for i, word in enumerate(words[:self.header_words])})
        extended, runs = self._runs(words, self.extended(values))
        if extended:
            more, more_rest = self.header.decode({4 * self.header_words: words[self.header_words]})
            values |= more
            rest |= more_rest
        said, said_rest = self._said([run for _, run in runs])
        written = self._written(words, runs, said_rest)
        if only is not None:
            written = {address: word for address, word in written.items() if address in only}
        body, body_rest = self.body.decode(written)
        slots = {name: value for name, value in said.items() if name.startswith("Slots.")}
        return TaskFields(values | slots | body | said, rest | body_rest | said_rest,
                          tuple((run.addresses[0], len(run.addresses)) for _, run in runs))

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The words of a task, built from zero: its header, then every run of `records`. ProgramError where a field is
        outside its runs, FieldError where a value does not fit."""
        form = self.form(fields)
        words = self.draft(form, fields)
        different = {int(name[len(SUPERSEDED) + 1:-1]): bits for name, bits in fields.rest.items()
                     if name.startswith(SUPERSEDED)}
        return tuple(self._supersede(words, form, different) if different else words)

    def form(self, fields: TaskFields) -> WordLayout:
        """Where the words of a task with these runs lie."""
        said = tuple((name, value) for name, value in fields.values.items() if part_of(name) == 1)
        rest = tuple((name, bits) for name, bits in fields.rest.items()
                     if part_of(name) == 1 and not name.startswith(SUPERSEDED))
        extended = any(name in fields.values for name in self._last_header_fields) \
            or self._last_header_register in fields.rest
        return self._form(fields.records, said, rest, extended)

    def draft(self, form: WordLayout, fields: TaskFields) -> list[int]:
        """The words of a task of some form with all of `fields`, to which `places` of others can be added."""
        words, positions, remembered = list(form.words), form.positions, self._remembered
        for register, bits in fields.rest.items():
            for position in () if part_of(register) == 1 else self._positions(positions, self._rest_register(register)):
                words[position] |= bits
        for name, value in fields.values.items():
            kind = value.__class__
            register, bits = remembered(name, value) if kind is int or kind is str else self._bits_of(name, value)
            if not register:
                continue
            if fields.rest and register in fields.rest:
                self._check_apart(name, fields.rest[register])
            for position in positions.get(register) or self._positions(positions, register):
                words[position] |= bits
        return words

    def places(self, form: WordLayout, names: Iterable[str]) -> Places:
        """Where whole numbers called so go in tasks of some form. ProgramError for a field outside its runs."""
        return tuple((self._positions(form.positions, name.rpartition(".")[0]), self._encoders[name])
                     for name in names)

    @staticmethod
    def completed(draft: Sequence[int], places: Places, numbers: Iterable[int]) -> tuple[int, ...]:
        """The words of a task of which `draft` has all fields but `numbers`. FieldError when one does not fit."""
        words = list(draft)
        for (positions, encode), number in zip(places, numbers, strict=True):
            bits = encode(number)
            for position in positions:
                words[position] |= bits
        return tuple(words)

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order."""
        return tuple(address for run in self.form(fields).runs for address in run.addresses)

    @staticmethod
    def _positions(positions: Mapping[str, tuple[int, ...]], register: str) -> tuple[int, ...]:
        found = positions.get(register)
        if found is None:
            raise ProgramError("the register is outside every run of the task", register=register)
        return found

    def _rest_register(self, name: str) -> str:
        """The register of bits without a description, by name or by address (`@0x13848`); FieldError where there is
        none."""
        if name.startswith("@"):
            known = self.body.by_address.get(int(name[1:], 16))
            return name if known is None else known[0]
        if name in self.body.by_name or name in self.header.by_name:
            return name
        raise FieldError(f"unknown register {name!r}", register=name)

    def _check_apart(self, name: str, rest: int) -> None:
        """FieldError when bits without a description lie where a field does."""
        if rest & (self.body if part_of(name) else self.header).locate(name)[2].mask:
            raise FieldError(f"rest 0x{rest:x} overlaps the field", field=name)

    def _bits_of(self, name: str, value: Value) -> tuple[str, int]:
        if isinstance(value, float):  # 0.0 and -0.0 are equal keys
            return self._remembered_reals(name, float.hex(value))
        return self._remembered(name, value) if isinstance(value, int | str) else self._encoded(name, value)

    @cached_property
    def _remembered(self) -> Callable[[str, Value], tuple[str, int]]:
        """`_encoded`: the tasks of a program repeat most of their fields."""
        return lru_cache(maxsize=MOST_FIELDS)(self._encoded)

    @cached_property
    def _remembered_reals(self) -> Callable[[str, str], tuple[str, int]]:
        return lru_cache(maxsize=MOST_FIELDS)(lambda name, value: self._encoded(name, float.fromhex(value)))

    def _encoded(self, name: str, value: Value) -> tuple[str, int]:
        """The register of a field, and the field's bits in place; none of what the heads of runs say."""
        if part_of(name) == 1:
            return "", 0
        _, register, described = (self.body if part_of(name) else self.header).locate(name)
        where = name.rpartition(".")[0]
        return where, register.place(described.name, value, 0, where)

    @cached_property
    def _encoders(self) -> Mapping[str, Callable[[int], int]]:
        """What makes the bits of each whole number."""
        return {f"{name}.{each.name}": each.encoder(name) for bank in (self.header, self.body)
                for name, register in bank.by_address.values() for each in register.fields
                if each.kind not in ("fp16", "fp32")}

    @cached_property
    def _last_header_register(self) -> str:
        """The header word that only some tasks have."""
        return self.header.by_address[4 * self.header_words][0]

    @cached_property
    def _last_header_fields(self) -> tuple[str, ...]:
        name, register = self.header.by_address[4 * self.header_words]
        return tuple(f"{name}.{each.name}" for each in register.fields)

    @cached_property
    def _form(self) -> Callable[..., WordLayout]:
        """Forms by runs, by what heads say, by bits of heads without a description, and whether there is one more
        header word."""
        @lru_cache(maxsize=MOST_FORMS)
        def form(records: tuple[tuple[int, int], ...], said: tuple[tuple[str, Value], ...],
                 rest: tuple[tuple[str, int], ...], extended: bool) -> WordLayout:
            runs = self._stated_runs(records, TaskPart(dict(said), dict(rest)))
            header = self.header_words + extended
            words: list[int] = [0] * header
            positions: dict[str, tuple[int, ...]] = {self.header.by_address[4 * i][0]: (i,) for i in range(header)}
            for run in runs:
                words.append(self.heads.write(run))
                for address in run.addresses:
                    known = self.body.by_address.get(address)
                    name = f"@0x{address:x}" if known is None else known[0]
                    if name in positions and not self.rewrites:
                        raise ProgramError("two runs of a task write the same register", register=name)
                    positions[name] = (*positions.get(name, ()), len(words))
                    words.append(0)
            return WordLayout(tuple(words), header, tuple(runs), positions)

        return form

    @staticmethod
    def _supersede(words: list[int], form: WordLayout, different: Mapping[int, int]) -> list[int]:
        """The words with those that a later run writes again as they are there."""
        early = {position for positions in form.positions.values() for position in positions[:-1]}
        for place, bits in different.items():
            if place not in early:
                raise ProgramError("no later run writes this word's register", register=f"{SUPERSEDED}[{place}]")
            words[place] = words[place] ^ bits
        return words

    def _runs(self, words: Sequence[int], readings: tuple[bool, ...]) -> tuple[bool, list[tuple[int, RegisterRun]]]:
        first: ProgramError | None = None
        for extended in readings:
            try:
                return extended, list(self._read_runs(words, self.header_words + extended))
            except ProgramError as error:
                first = first or error
        raise first or ProgramError("the header has no reading")

    def _read_runs(self, words: Sequence[int], position: int) -> Iterator[tuple[int, RegisterRun]]:
        """(index of its head, run) of every run. ProgramError unless the last one ends with the task."""
        seen: set[int] = set()
        while position < len(words):
            run = self.heads.read(words[position])
            if run is None or position + len(run.addresses) >= len(words):
                raise ProgramError(f"word {position} (0x{words[position]:08x}) is not the head of a run of register "
                                   f"writes that fits the task's {len(words)} words")
            if not self.rewrites and not seen.isdisjoint(run.addresses):
                i, address = next((i, a) for i, a in enumerate(run.addresses) if a in seen)
                raise ProgramError(f"word {position + 1 + i} writes register 0x{address:x} a second time")
            seen.update(run.addresses)
            yield position, run
            position += 1 + len(run.addresses)

    def _written(self, words: Sequence[int], runs: list[tuple[int, RegisterRun]], rest: dict[str, int]) -> dict[int,
                                                                                                                int]:
        """The words registers end up with; the others' differences go to `rest`."""
        written: dict[int, int] = {}
        for head, run in runs:
            written.update(zip(run.addresses, words[head + 1:head + 1 + len(run.addresses)], strict=True))
        if len(written) != sum(len(run.addresses) for _, run in runs):
            places = [(head + 1 + i, a) for head, run in runs for i, a in enumerate(run.addresses)]
            rest |= {f"{SUPERSEDED}[{place}]": words[place] ^ written[a] for place, a in places
                     if words[place] != written[a]}
        return written

    def _said(self, runs: list[RegisterRun]) -> tuple[Fields, dict[str, int]]:
        """What the heads of runs say beside their addresses, as fields and rest."""
        values: Fields = {}
        rest: dict[str, int] = {}
        for name, run in zip(self._names([(r.addresses[0], r.sparse) for r in runs]), runs, strict=True):
            plain = not run.sparse and not name.startswith("Slots.") and not any(run.said.values())
            if not plain:
                values |= {f"{name}.{key}": value for key, value in run.said.items()}
            if run.rest:
                rest[name] = run.rest
            elif run.sparse and not any(run.said.values()):
                rest[name] = self.heads.write(RegisterRun((0,), True, run.said))  # the bit that tells sparse from dense
        return values, rest

    def _stated_runs(self, records: Sequence[tuple[int, int]], head: TaskPart) -> list[RegisterRun]:
        said = head.registers()
        sparse = {name for name in said if name.startswith("Runs.Sparse[")}
        kinds = [(address, f"Runs.Sparse[{i}]" in sparse) for i, (address, _) in enumerate(records)]
        runs = []
        for name, (first, count), (_, is_sparse) in zip(self._names(kinds), records, kinds, strict=True):
            fields = said.pop(name, {})
            addresses = self.heads.addresses(first, count, fields if is_sparse else None)
            if not count:
                raise ProgramError(f"the run at {first:#x} has no words; one or more can be said", register=name)
            if addresses is None:
                raise ProgramError(f"the run at {first:#x} has {count} words, its head says otherwise", register=name)
            bits = 0 if is_sparse and not any(fields.values()) else head.rest.get(name, 0)
            runs.append(RegisterRun(addresses, is_sparse, fields, bits))
        left = [name for name in said if not name.startswith(SUPERSEDED)]
        if left:
            raise ProgramError("the task has no such run", register=left[0])
        return runs

    def _names(self, kinds: Sequence[tuple[int, bool]]) -> Iterator[str]:
        """What the heads of runs are called, from their (address, sparse): by pointer once, else by number."""
        named: set[int] = set()
        for i, (address, sparse) in enumerate(kinds):
            if sparse:
                yield f"Runs.Sparse[{i}]"
            elif address in self.pointers and address not in named:
                named.add(address)
                yield f"Slots.{self.pointers[address]}"
            else:
                yield f"Runs.Dense[{i}]"
