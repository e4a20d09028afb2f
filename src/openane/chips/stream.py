"""Task descriptors as streams of register writes, for every generation: words to named fields and back.

A descriptor is a header, in some tasks one more header word, and runs of register writes. What the head of a run says
beside its addresses is kept as fields of two blocks that have no registers: `Slots` (the base-address slot an address
is relative to, by the name of the address) and `Runs` (by the number of the run). `Runs.Superseded` holds how a word
differs from the one that a later run of the same task writes to the same register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from openane.chips.chip import TaskFields
from openane.chips.parts import Part, Remembered, part_of
from openane.chips.runs import FOLLOWING, RELATIVE, SLOT, VIRTUAL, LinkedHeads, Run, RunHeads
from openane.errors import ProgramError
from openane.registers import Bank, Block, Fields, Register, Value

MOST_RUNS = 1024   # of a task of 2047 words, each run taking two at least
MOST_WORDS = 2048
SUPERSEDED = "Runs.Superseded"
REAL_KINDS = ("fp16", "fp32")
HEADS = 1 << 40
"""Places from here on are heads of runs, beyond every address."""
NOWHERE = HEADS - 1

Place = tuple[int, Callable[[int], int]]
"""Where the bits of a whole number go, and what makes them."""
Places = tuple[Place, ...]

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

    @cached_property
    def header_words(self) -> int:
        """Header words every task has."""
        return len(self.header.by_address) - 1

    def decode(self, words: Sequence[int]) -> TaskFields:
        """Named fields of a task descriptor. ProgramError when its runs do not end with it."""
        if not self.header_words < len(words) <= self.longest:
            raise ProgramError(f"a task has {self.header_words + 1} to {self.longest} words, not {len(words)}")
        values, rest = self.header.decode({4 * i: word for i, word in enumerate(words[:self.header_words])})
        extended, runs = self._runs(words, self.extended(values))
        if extended:
            more, more_rest = self.header.decode({4 * self.header_words: words[self.header_words]})
            values |= more
            rest |= more_rest
        said, said_rest = self._said([run for _, run in runs])
        body, body_rest = self.body.decode(self._written(words, runs, said_rest))
        slots = {name: value for name, value in said.items() if name.startswith("Slots.")}
        return TaskFields(values | slots | body | said, rest | body_rest | said_rest,
                          tuple((run.addresses[0], len(run.addresses)) for _, run in runs))

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The words of a task, built from zero: its header, then every run of `records`."""
        words = self.draft(fields)
        return self._general(fields) if words is None else tuple(words.values())

    def draft(self, fields: TaskFields) -> dict[int, int] | None:
        """The words of a task by place, in stream order, for `completed`. Only for a task of which nothing but fields
        of registers is stated; None for others and for one with a field that is outside its runs."""
        if fields.rest:
            return None
        extended = any(name in fields.values for name in self._last_header_fields)
        words, values = dict(self._frame(fields.records, extended)), dict(fields.values)
        real = [(name, values.pop(name)) for name in self._real & values.keys()]
        if not words or any(issubclass(kind, float) for kind in {*map(type, values.values())}):
            return None
        try:
            for place, bits in map(self._placed.__getitem__, values.items()):
                words[place] |= bits
            for name, value in real:
                place, bits = (self._placed_real[name, float.hex(value)] if isinstance(value, float)
                               else self._place(name, value))
                words[place] |= bits
        except KeyError:
            return None
        return words

    def places(self, draft: Mapping[int, int], names: Iterable[str]) -> Places:
        """Where the bits of whole numbers that `draft` lacks go. ProgramError for a field outside its runs."""
        outside = next((name for name in names if self._encoders[name][0] not in draft), None)
        if outside is not None:
            raise ProgramError("the register is outside every run of the task", register=outside.rpartition(".")[0])
        return tuple(self._encoders[name] for name in names)

    @staticmethod
    def completed(draft: Mapping[int, int], places: Places, numbers: Iterable[int]) -> tuple[int, ...]:
        """The words of a task of which `draft` has all fields but `numbers`. FieldError when one does not fit."""
        words = dict(draft)
        for (place, encode), number in zip(places, numbers, strict=True):
            words[place] |= encode(number)
        return tuple(words.values())

    @cached_property
    def _encoders(self) -> Mapping[str, Place]:
        """Where the bits of each whole number go, as `_place` says, and what makes them."""
        return {f"{name}.{field.name}": (address if bank is self.body else ~address, field.encoder(name))
                for bank in (self.header, self.body) for address, (name, register) in bank.by_address.items()
                for field in register.fields if field.kind not in REAL_KINDS}

    @cached_property
    def _placed(self) -> Remembered:
        return Remembered(self._place)

    @cached_property
    def _placed_real(self) -> Remembered:
        return Remembered(lambda name, value: self._place(name, float.fromhex(value)))

    @cached_property
    def _real(self) -> frozenset[str]:
        """Names of the fields that hold real numbers."""
        return frozenset(f"{name}.{field.name}" for bank in (self.header, self.body)
                         for name, register in bank.by_address.values()
                         for field in register.fields if field.kind in REAL_KINDS)

    def _place(self, name: str, value: Value) -> tuple[int, int]:
        """Where the bits of a field go, and what they are: the address of its register, its complement in the header,
        nowhere in the head of a run."""
        part = part_of(name)
        if part == 1:
            return NOWHERE, 0
        address, register, field = (self.body if part else self.header).locate(name)
        return address if part else ~address, register.place(field.name, value, 0, name.rpartition(".")[0])

    @cached_property
    def _last_header_fields(self) -> tuple[str, ...]:
        """The fields of the header word that only some tasks have."""
        name, register = self.header.by_address[4 * self.header_words]
        return tuple(f"{name}.{field.name}" for field in register.fields)

    @cached_property
    def _frame(self) -> Callable[[tuple[tuple[int, int], ...], bool], Mapping[int, int]]:
        """The words of a task by place, heads of runs written and all else zero; nowhere what is written twice."""
        @lru_cache(maxsize=64)
        def frame(records: tuple[tuple[int, int], ...], extended: bool) -> Mapping[int, int]:
            words = {~(4 * i): 0 for i in range(self.header_words + extended)}
            for i, run in enumerate(self._stated_runs(records, Part({}, {}))):
                words[HEADS + i] = self.heads.write(run)
                words |= dict.fromkeys(run.addresses, 0)
            complete = len(words) == self.header_words + extended + sum(1 + count for _, count in records)
            return words if complete else {}

        return frame

    def _general(self, fields: TaskFields) -> tuple[int, ...]:
        header, head, body = Part.all_of(fields)
        words = self.header.encode(header.values, header.rest, range(0, 4 * self.header_words, 4))
        out = [words[a] for a in sorted(words)]
        runs = self._stated_runs(fields.records, head)
        addresses = [a for run in runs for a in run.addresses]
        if not self.rewrites and len(set(addresses)) != len(addresses):
            raise ProgramError("two runs of a task write the same register")
        final = self.body.encode(body.values, body.rest, addresses)
        missing = set(final) - set(addresses)
        if missing:
            name = self.body.by_address.get(min(missing), (hex(min(missing)),))[0]
            raise ProgramError("the register is outside every run of the task", register=name)
        for run in runs:
            out.append(self.heads.write(run))
            out += [final[a] for a in run.addresses]
        return self._supersede(out, runs, head)

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order."""
        return tuple(a for run in self._stated_runs(fields.records, Part.all_of(fields)[1]) for a in run.addresses)

    def _runs(self, words: Sequence[int], readings: tuple[bool, ...]) -> tuple[bool, list[tuple[int, Run]]]:
        first: ProgramError | None = None
        for extended in readings:
            try:
                return extended, list(self._read_runs(words, self.header_words + extended))
            except ProgramError as error:
                first = first or error
        raise first or ProgramError("the header has no reading")

    def _read_runs(self, words: Sequence[int], position: int) -> Iterator[tuple[int, Run]]:
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

    def _written(self, words: Sequence[int], runs: list[tuple[int, Run]], rest: dict[str, int]) -> dict[int, int]:
        """The words registers end up with; the others' differences go to `rest`."""
        written: dict[int, int] = {}
        for head, run in runs:
            written.update(zip(run.addresses, words[head + 1:head + 1 + len(run.addresses)], strict=True))
        if len(written) != sum(len(run.addresses) for _, run in runs):
            places = [(head + 1 + i, a) for head, run in runs for i, a in enumerate(run.addresses)]
            rest |= {f"{SUPERSEDED}[{place}]": words[place] ^ written[a] for place, a in places
                     if words[place] != written[a]}
        return written

    def _supersede(self, out: list[int], runs: list[Run], head: Part) -> tuple[int, ...]:
        different = {int(name[len(SUPERSEDED) + 1:-1]): bits for name, bits in head.rest.items()
                     if name.startswith(SUPERSEDED)}
        if different:
            place = len(out) - sum(1 + len(r.addresses) for r in runs)
            places: dict[int, int] = {}
            for run in runs:
                places |= {place + 1 + i: a for i, a in enumerate(run.addresses)}
                place += 1 + len(run.addresses)
            last = {address: place for place, address in places.items()}
            for place, bits in different.items():
                if place not in places or last[places[place]] == place:
                    raise ProgramError("no later run writes this word's register", register=f"{SUPERSEDED}[{place}]")
                out[place] = out[place] ^ bits
        return tuple(out)

    def _said(self, runs: list[Run]) -> tuple[Fields, dict[str, int]]:
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
                rest[name] = self.heads.write(Run((0,), True, run.said))  # the bit that tells sparse from dense
        return values, rest

    def _stated_runs(self, records: Sequence[tuple[int, int]], head: Part) -> list[Run]:
        said = head.registers()
        sparse = {name for name in said if name.startswith("Runs.Sparse[")}
        kinds = [(address, f"Runs.Sparse[{i}]" in sparse) for i, (address, _) in enumerate(records)]
        runs = []
        for name, (first, count), (_, is_sparse) in zip(self._names(kinds), records, kinds, strict=True):
            fields = said.pop(name, {})
            addresses = self.heads.addresses(first, count, fields if is_sparse else None)
            if addresses is None:
                raise ProgramError(f"the run at {first:#x} has {count} words, its head says otherwise", register=name)
            bits = 0 if is_sparse and not any(fields.values()) else head.rest.get(name, 0)
            runs.append(Run(addresses, is_sparse, fields, bits))
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
