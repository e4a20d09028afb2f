"""HWX files of the generations from H14 on: written and read back, and refused by name where facts end."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13 import layout_of

from openane.chips import described_generations, get_chip
from openane.chips.chip import TaskFields
from openane.chips.runs import VIRTUAL
from openane.errors import AneError, FormatError, ProgramError, UnsupportedError
from openane.formats import read_hwx, write_hwx
from openane.formats.hwx import MAGIC
from openane.formats.hwx.wide import SLOTS, WIDE_PROGRAM, TextHead, WideDescriptor
from openane.formats.listing import assemble, disassemble_bytes
from openane.formats.macho import MachO, MachOHeader, Segment, Thread, read_macho, section_data, write_macho
from openane.program import Buffer, Program, Role, Task
from openane.program.text import disassemble

LATER = [name for name in described_generations() if name != "h13"]
SURFACE = layout_of((1, 4, 1, 2, 5))
DRAWN = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def task(name: str, number: int, reads: int, writes: int, words: int) -> tuple[int, ...]:
    """A task that names two slots and writes `words` registers."""
    chip = get_chip(name)
    registers = chip.bank.by_name
    records, values = [], {"Header.Task.TID": number, "Header.Control.TSR": 1, "Header.Cycles.ExeCycles": 3}
    for slot, place in (("RBase0", reads), ("WBase", writes)):
        records.append((registers[f"Slots.{slot}"][0] - VIRTUAL, 2))
        values |= {f"Slots.{slot}.Slot": place, f"Slots.{slot}.Relative": 1}
    fields: dict[str, Any] = {"L2.SourceCfg.SourceType": "stream", "TileDMADst.DMAConfig.En": 1}
    records += [(registers[full.rpartition(".")[0]][0], 1) for full in fields]
    records.append((registers["L2.ResultBase"][0], words))
    size = len(chip.header.by_address) - 1 + sum(1 + count for _, count in records)
    return chip.encode(TaskFields(values | fields | {"Header.Task.TaskSize": size}, {}, tuple(records)))


@st.composite
def programs(draw: st.DrawFn, name: str) -> Program:
    """Tasks one after another over an input, an output, and in some scratch and a state."""
    tasks: list[Task] = []
    offset = 16
    for number in range(draw(st.integers(1, 4))):
        words = task(name, number, 6, 7, draw(st.integers(1, 4)))
        tasks.append(Task(words, offset))
        offset += -(-4 * len(words) // 16) * 16 + draw(st.sampled_from((0, 0, 16)))
    buffers = [Buffer("x", 6, Role.INPUT, SURFACE.size, SURFACE), Buffer("y", 7, Role.OUTPUT, SURFACE.size, SURFACE)]
    for slot, role in ((3, Role.SCRATCH), (9, Role.STATE)):
        if draw(st.booleans()):
            buffers.append(Buffer(role.value, slot, role, draw(st.integers(1, 0x9000))))
    return Program(name, tuple(tasks), draw(st.binary(max_size=200)), tuple(buffers), draw(st.sampled_from("fg")))


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(data=st.data())
def test_what_is_written_reads_back_equal(name: str, data: st.DataObject) -> None:
    program = data.draw(programs(name))
    written = write_hwx(program)
    assert read_hwx(written) == program
    assert write_hwx(read_hwx(written)) == written
    assert any(name in line for line in disassemble(program))


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(data=st.data())
def test_the_listing_of_a_file_assembles_to_the_file_and_describes_all_of_it(name: str, data: st.DataObject) -> None:
    program = data.draw(programs(name))
    written = write_hwx(program)
    listing = disassemble_bytes(written)
    assert assemble(listing.text, lambda _: listing.sidecar) == written
    assert listing.undescribed == 0
    assert sum(line.startswith("task ") for line in listing.text.splitlines()) == len(program.tasks)


def one(name: str) -> Program:
    words = task(name, 0, 6, 7, 1)
    second = 16 + -(-4 * len(words) // 16) * 16
    return Program(name, (Task(words, 16), Task(task(name, 1, 6, 7, 2), second)), b"", (
        Buffer("x", 6, Role.INPUT, SURFACE.size, SURFACE), Buffer("y", 7, Role.OUTPUT, SURFACE.size, SURFACE)), "main")


@pytest.mark.parametrize("name", LATER)
def test_the_descriptor_says_what_records_of_apples_compiler_say(name: str) -> None:
    file = read_macho(write_hwx(one(name)), MAGIC)
    thread = next(c for c in file.commands if isinstance(c, Thread) and c.flavor == WIDE_PROGRAM)
    record = thread.reader().record(WideDescriptor, 0, "the descriptor")
    text = next(s for s in file.segments if s.name == "__TEXT")
    assert (record.text, record.words, record.tasks) == (text.sections[0].address, len(one(name).text()) // 4, 2)
    assert (record.slots[0], record.slots[2 * 1]) == (text.vmaddr, text.sections[1].address)
    assert len(record.slots) == 2 * SLOTS
    assert not any(record.slots[1::2])
    assert 0x10 + len(thread.state) == {"h14": 0x888, "h15": 0x888}.get(name, 0x898)
    assert section_data(text, text.sections[0]).record(TextHead, 0, "the head") == TextHead()


def test_tasks_must_lie_one_after_another() -> None:
    program = one("h14")
    first, second = program.tasks
    for tasks, message in (((replace(first, offset=0), second), "multiple of 16 from 0x10"),
                           ((first, replace(second, offset=second.offset + 4)), "multiple of 16"),
                           ((second, first), "from"), ((replace(first, words=first.words[:-1]), second), "size")):
        with pytest.raises(ProgramError, match=message):
            write_hwx(replace(program, tasks=tasks))


def test_a_text_with_more_or_fewer_tasks_is_refused() -> None:
    file = read_macho(write_hwx(one("h14")), MAGIC)
    for tasks, message in ((1, "go on"), (3, "early")):
        commands = tuple(
            replace(c, state=_changed(c.state, tasks)) if isinstance(c, Thread) and c.flavor == WIDE_PROGRAM else c
            for c in file.commands)
        with pytest.raises(FormatError, match=message):
            read_hwx(write_macho(MachO(file.header, commands)))


def _changed(state: bytes, tasks: int) -> bytes:
    place = 0x830 - Thread.STATE
    return state[:place] + tasks.to_bytes(4, "little") + state[place + 4:]


def test_what_is_not_known_is_refused_by_name() -> None:
    program = one("h16")
    with pytest.raises(UnsupportedError, match="h16"):
        write_hwx(program, "compat")
    file = read_macho(write_hwx(program), MAGIC)
    kernels = Segment("__KERN_0", 0x31000000, 0x4000, 1, 0)
    with pytest.raises(FormatError, match="__KERN_0"):
        read_hwx(write_macho(MachO(file.header, (*file.commands[:1], kernels, *file.commands[1:]))))
    for subtype, name in ((1, "h11"), (3, "h12"), (8, "unknown")):
        header = MachOHeader(file.header.magic, file.header.cputype, subtype, file.header.filetype,
                             flags=file.header.flags)
        with pytest.raises(FormatError, match=name):
            read_hwx(write_macho(MachO(header, file.commands)))


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(data=st.data())
def test_changed_bytes_raise_nothing_but_typed_errors(name: str, data: st.DataObject) -> None:
    written = bytearray(write_hwx(one(name)))
    for _ in range(data.draw(st.integers(1, 4))):
        written[data.draw(st.integers(0, 0x1200) | st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(AneError):
        read_hwx(bytes(written))
