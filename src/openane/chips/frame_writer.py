"""How generations from H14 on write tasks: in frames one after another, each stating what is not at its default.

A frame is a header, the runs of each block's registers that are not at their defaults, and runs of addresses, whose
heads name the base-address slots they are relative to. Emission names fields as H13 does; a generation says what it
calls them (`names`). Evidence: of 1,051 blocks of H14 to H18 in the records of Apple's compiler every run is the one
`fewest_runs` gives, and of 178 tasks every word count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import ClassVar

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.emit.apart import SECTION, TABLE
from openane.chips.emit.live import LIVE_OUTS
from openane.chips.emit.policy import Policy
from openane.chips.runs import FOLLOWING, REACH, RELATIVE, SLOT
from openane.chips.stream import StreamFormat
from openane.chips.writer import CommonTask, TaskBody
from openane.errors import ProgramError
from openane.registers import Fields, Register
from openane.rounding import round_up

Run = tuple[tuple[int, ...], int | None]
"""The addresses of a run's words, and the slot its head names where they hold addresses or data sets."""
WORD = 4
LONGEST_RUN = 64   # words: the head of a dense run counts them in six bits
BLOCKS = ("KernelDMA", "Common", "TileDMASrc", "L2", "PE", "NE", "TileDMADst", "CacheDMA")
PAIRS = ("TileDMASrc.BaseAddr.Addr", "TileDMASrc.SecondBaseAddr.Addr", "TileDMADst.BaseAddr.Addr", SECTION, TABLE)
"""Addresses in two halves."""
SLOTS = {"RBase0": "Header.Bases.RBase0", "RBase1": "Header.Bases.RBase1", "WBase": "Header.Bases.WBase",
         "KBase0": "Header.KernelBases.KBase0"}
DATA_SETS = {"FirstDataSet": "RBase0", "SecondDataSet": "RBase1", "ResultDataSet": "WBase"}
ALWAYS = ("Common.InDim", "Common.OutDim", "Common.InHeight", "Common.OutHeight", "Common.TileCfg", "Common.Cfg",
          "Common.TaskInfo", "L2.SourceCfg", "NE.MACCfg", "NE.PostScale", "CacheDMA.DataSet")
"""Registers that a task with their side writes whatever they hold."""
TAG = "UserTag"
TAGS = 256         # tasks are told apart by their number in eight bits


class FrameWriter:
    """Writes tasks under the names that emission has for their fields."""

    names: ClassVar[Mapping[str, str]] = {}
    """Fields that the header or a block has under another name than in H13, or as `reader` has them."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Fields of H13 that tasks of the generation never set."""

    def __init__(self, form: StreamFormat, policy: Policy, names: Mapping[str, str]) -> None:
        """`names`: H13's name of a field to the generation's, as its reader has them."""
        assert policy.frames is not None, "the policy of a generation whose tasks lie in frames says what they state"
        self.format, self._policy, self._frames = form, policy, policy.frames
        self._names = {**HEADER_NAMES, **names, **self.names}
        self._pointers = {name: address for address, name in form.pointers.items()}

    def links(self, fields: TaskFields) -> tuple[str, ...]:
        """Where a task states its number, and its size."""
        tags = [name for name in fields.values if name.endswith(f".{TAG}")]
        kernels = ["KernelDMA.Control.Tag"] if fields.values.get("KernelDMA.Control.Kernels") else []
        return ("Header.Task.TID", "Header.Task.TaskSize", *kernels, *tags)

    def numbers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Both halves of an address in memory."""
        return tuple(place for name in names for place in self.halves(name))

    def parts(self, names: Sequence[str], numbers: Sequence[int]) -> Sequence[int]:
        """The halves of addresses."""
        half = 1 << 32
        parts: list[int] = []
        for name, number in zip(names, numbers, strict=True):
            parts += [number % half] * (len(self.halves(name)) - 1) + [number - number % half] \
                if name in PAIRS else [number]
        return parts

    def halves(self, name: str) -> tuple[str, ...]:
        """The fields that state a number: two for an address in memory, its lower half first."""
        if name not in PAIRS:
            return (self._names.get(name, name),)
        register = name.removesuffix(".Addr")
        return (name, f"{register}Hi.Addr")

    def task(self, values: Fields, rest: Mapping[str, int], layout: str, numbers: Sequence[str] = (), *,
             first: bool = False, last: bool = False) -> TaskFields:
        """A task with these fields; of `layout` there is one."""
        slots = self._slots(values)
        placed = self.numbers(numbers)
        header = {name: value for name, value in self._header(values, last).items() if value or name in placed}
        stated = self._stated(values, slots, first, last)
        later = {name.rpartition(".")[0] for name in placed} & self.format.body.by_name.keys()
        stated |= {name: stated.get(name, self._defaults(name)[0]) for name in later}
        written = {register: fields for register, fields in stated.items()
                   if register in later or self._is_written(register, fields, first)}
        body = {f"{register}.{name}": value for register, fields in written.items() for name, value in fields.items()}
        runs = [*self._block_runs(written), *self._address_runs(slots)]
        records = tuple((addresses[0], len(addresses)) for addresses, _ in runs)
        return TaskFields(header | self._heads(runs) | body, rest, records)

    def _heads(self, runs: Sequence[Run]) -> Fields:
        """What the heads of runs say: slots of those of addresses, which registers others leave out."""
        heads: Fields = {}
        named: set[str] = set()
        for index, (addresses, slot) in enumerate(runs):
            if slot is not None:
                name = self.format.pointers[addresses[0]]
                head = f"Runs.Dense[{index}]" if name in named else f"Slots.{name}"
                named.add(name)
                heads |= {f"{head}.{SLOT.name}": slot, f"{head}.{RELATIVE.name}": 1}
            elif addresses[-1] - addresses[0] != WORD * (len(addresses) - 1):
                heads[f"Runs.Sparse[{index}].{FOLLOWING.name}"] = sum(
                    2 ** ((address - addresses[0]) // WORD - 1) for address in addresses[1:])
        return heads

    def link(self, bodies: Iterable[TaskBody], layout: str) -> tuple[EmittedTask, ...]:
        """Numbers and sizes, then words; the text begins with the head of a frame that is no task."""
        alignment = self._policy.limits.task_alignment
        tasks: list[EmittedTask] = []
        offset = self._policy.limits.first_task
        for index, body in enumerate(bodies):
            marker = self._marker(body.common, offset)
            size = body.common.size + len(marker)
            values = {"Header.Task.TID": index, "Header.Task.TaskSize": size,
                      "KernelDMA.Control.Tag": (index + 1) % TAGS}
            links = [values.get(name, index % TAGS) for name in body.common.links]
            try:
                words = body.common.completed(body.numbers, links)
            except ProgramError as error:
                raise ProgramError(str(error), task=index) from error
            if marker:
                place = _addresses_begin(body.common)
                words = (*words[:place], *marker, *words[place:])
            tasks.append(EmittedTask(words, offset))
            offset = round_up(offset + WORD * size, alignment)
        return tuple(tasks)

    def _marker(self, common: CommonTask, offset: int) -> tuple[int, ...]:
        """Rule: words that keep a task, padded to its alignment, from ending at a multiple of 64 bytes."""
        if self._frames.marker is None:
            return ()
        alignment, line = self._policy.limits.task_alignment, 64
        marker: tuple[int, ...] = ()
        while round_up(offset + WORD * (common.size + len(marker)), alignment) % line == 0:
            marker += self._frames.marker
        return marker

    def _slots(self, values: Fields) -> dict[str, int]:
        """The base-address slots a task names, by pointer."""
        slots = {name: int(values[field]) for name, field in SLOTS.items() if values.get(f"{field}En")}
        if "Slots.TableBase.Slot" in values:
            slots["TableBase"] = int(values["Slots.TableBase.Slot"])
        return slots

    def _header(self, values: Fields, last: bool) -> Fields:
        """The header's fields, all of which have a place in every task."""
        named = {self._names.get(name, name): value for name, value in values.items() if name.startswith("Header.")}
        known = self._header_fields
        return {**{name: value for name, value in named.items() if name in known}, "Header.Control.TSR": 1,
                **({"Header.Control.Last": int(last)} if "Header.Control.Last" in known else {})}

    def _stated(self, values: Fields, slots: Mapping[str, int], first: bool, last: bool) -> dict[str, Fields]:
        """The fields of each register a task may write, those that nothing is said about at their defaults."""
        neural = bool(values.get("Common.TaskInfo.NEEn"))
        given = self._given(values, slots, neural, last)
        stated: dict[str, Fields] = {}
        for name, value in given.items():
            register, _, field = self._names.get(name, name).rpartition(".")
            if register not in self.format.body.by_name:
                raise ProgramError(f"the generation has no register for {value!r}", field=name)
            stated.setdefault(register, {})[field] = value
        for name in () if neural else self._lanes:
            stated.pop(name, None)
        for name, value in self._frames.constant.items():
            register, _, field = name.rpartition(".")
            if register in stated:
                stated[register].setdefault(field, value)
        if given.get("KernelDMA.Control.Kernels") and not first:
            shared = self._with_table if TABLE_ENABLE in values else ()
            stated |= {name: stated.get(name, {}) for name in (*self._streams, *shared)}
        return {register: {**self._defaults(register)[0], **fields} for register, fields in stated.items()}

    def _given(self, values: Fields, slots: Mapping[str, int], neural: bool, last: bool) -> Fields:
        """The fields that say something of a task of one engine."""
        other = "PE." if neural else "NE."
        given: Fields = {name: value for name, value in values.items()
                         if not name.startswith((other, "Header.", "Slots.")) and name not in self.unused}
        given |= {"Common.TaskInfo.NEEn": int(neural), "KernelDMA.Control.Last": int(last)}
        given |= self._frames.cache if "WBase" in slots else {}
        return self.translated(given, neural)

    def translated(self, given: Fields, neural: bool) -> Fields:
        """Fields that the generation states otherwise, as it does; called as in H13 or as it calls them."""
        return given

    def _is_written(self, register: str, fields: Fields, first: bool) -> bool:
        """Rule: what is not at its default, which in a register with the task's number only the first task can be."""
        word = self._register(register).encode(fields)
        return register in ALWAYS or word != self._defaults(register)[1] or (TAG in fields and not first)

    def _register(self, name: str) -> Register:
        return self.format.body.by_name[name][1]

    def _defaults(self, name: str) -> tuple[Fields, int]:
        """A register's fields and word where a task does not write it."""
        return _defaults(self._register(name))

    def _block_runs(self, written: Iterable[str]) -> Iterator[Run]:
        """The addresses of the runs of each block."""
        apart = {address for name, _, count in self._layout for address in _following(self._pointers[name], count)}
        places = self.format.body.by_name
        by_block: dict[str, list[int]] = {block: [] for block in BLOCKS}
        for register in written:
            address = places[register][0]
            if address not in apart:
                by_block[register.partition(".")[0]].append(address)
        for addresses in by_block.values():
            yield from ((run, None) for run in fewest_runs(tuple(sorted(addresses))))

    def _address_runs(self, slots: Mapping[str, int]) -> Iterator[Run]:
        """The addresses of the runs that hold addresses or data sets, each with the slot it names."""
        for name, of, count in self._layout:
            if of not in slots:
                continue
            slot = self._frames.data_sets if name in DATA_SETS else slots[of]
            assert slot is not None
            run = (_following(self._pointers[name], count), slot)
            yield run
            if name == "RBase1" and self._frames.second_twice:
                yield run

    @cached_property
    def _layout(self) -> tuple[tuple[str, str, int], ...]:
        """The runs of addresses in their order: pointer, whose slot it needs, words."""
        table = [("TableBase", "TableBase", 2), ("TableOffset", "TableBase", 1)]
        layout = [("KBase0", "KBase0", 2), *(each for each in table if each[0] in self._pointers)]
        layout += [("RBase0", "RBase0", 2), ("RBase1", "RBase1", 2), ("WBase", "WBase", 2)]
        if self._frames.data_sets is not None:
            layout += [(name, of, 1) for name, of in DATA_SETS.items()]
        return tuple(layout)

    @cached_property
    def _streams(self) -> tuple[str, ...]:
        """The configurations of the cores' streams."""
        return tuple(f"KernelDMA.CoeffDMAConfig[{core}]" for core in range(self._policy.limits.cores))

    @cached_property
    def _with_table(self) -> tuple[str, ...]:
        """The configurations of the streams beside the table's."""
        return tuple(name for name in self.format.body.by_name if name.startswith("KernelDMA.AuxDMAConfig["))

    @cached_property
    def _lanes(self) -> tuple[str, ...]:
        """The register of coefficient lanes, which planar tasks do not write."""
        return tuple(name for name in ("Common.OCG", "Common.NECfg") if name in self.format.body.by_name)

    @cached_property
    def _header_fields(self) -> frozenset[str]:
        return frozenset(f"{name}.{field.name}" for name, (_, register) in self.format.header.by_name.items()
                         for field in register.fields)


TABLE_ENABLE = "KernelDMA.TableDMAConfig.En"
HEADER_NAMES = {
    "Header.Next.ExeCycles": "Header.Cycles.ExeCycles", "Header.Bases.ENE": "Header.Control.ENE",
    LIVE_OUTS: LIVE_OUTS,
    **{f"TileDMASrc.{side}DMAConfig.{hint}": f"TileDMASrc.{side}CacheHints.{hint}" for side in ("", "Second")
       for hint in ("CacheHintReuse", "CacheHintNoReuse")},
}


@lru_cache(maxsize=1 << 11)
def _defaults(register: Register) -> tuple[Fields, int]:
    fields: Fields = {field.name: field.default for field in register.fields if field.default is not None}
    word = register.encode(fields)
    return fields | {field.name: 0 for field in register.fields if field.name == TAG}, word


def _following(address: int, count: int) -> tuple[int, ...]:
    return tuple(range(address, address + WORD * count, WORD))


def _addresses_begin(common: CommonTask) -> int:
    """The index of the first head of a run of addresses."""
    runs = takewhile(lambda run: not run.said.get(RELATIVE.name), common.form.runs)
    return common.form.header + sum(1 + len(run.addresses) for run in runs)


@lru_cache(maxsize=1 << 12)
def fewest_runs(addresses: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Runs that write these registers with the fewest heads: of adjacent words, or of a word and those of the next 16
    that are written. Rule: where both give as few, adjacent words where there are two or more."""
    def dense(i: int) -> int:
        end = i + 1
        while end < len(addresses) and addresses[end] == addresses[end - 1] + WORD and end - i < LONGEST_RUN:
            end += 1
        return end

    def sparse(i: int) -> int:
        end = i + 1
        while end < len(addresses) and addresses[end] <= addresses[i] + WORD * REACH:
            end += 1
        return end

    heads = [0] * (len(addresses) + 1)
    for i in range(len(addresses) - 1, -1, -1):
        heads[i] = 1 + min(heads[dense(i)], heads[sparse(i)])
    runs, i = [], 0
    while i < len(addresses):
        near, far = dense(i), sparse(i)
        adjacent = near == far or heads[near] < heads[far] or (heads[near] == heads[far] and near - i > 1)
        end = near if adjacent else far
        runs.append(addresses[i:end])
        i = end
    return tuple(runs)


__all__ = ["FrameWriter", "fewest_runs"]
