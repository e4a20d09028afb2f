"""HWX: Apple's files read, our files read back, broken files are named."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13 import layout_of
from support.records import record_tasks

from openane.chips import get_chip
from openane.errors import FormatError, ProgramError
from openane.formats import read_hwx, write_hwx
from openane.formats.hwx import MAGIC
from openane.formats.hwx.descriptors import read_program
from openane.formats.hwx.symbols import read_tensors, tensor_symbols
from openane.formats.macho import Ident, Library, MachO, Segment, Symbol, SymbolTable, Thread, read_macho, write_macho
from openane.program import Buffer, Layout, Program, Role, Task

DRAWN = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@DRAWN
@given(data=st.data())
def test_what_is_written_reads_back_equal(data: st.DataObject, programs: st.SearchStrategy[Program]) -> None:
    program = data.draw(programs)
    assert read_hwx(write_hwx(program)) == program


def test_a_program_without_constants_has_none_when_read(small: Program) -> None:
    file = read_macho(write_hwx(small), MAGIC)
    text = next(s for s in file.segments if s.name == "__TEXT")
    assert text.sections[1].size == 0x4000
    assert read_hwx(write_hwx(small)).constants == b""


def test_compat_keeps_operations_names_and_roles(small: Program) -> None:
    chip = get_chip("h13")
    compat = read_hwx(write_hwx(small, "compat"))
    assert read_hwx(write_hwx(compat, "compat")) == compat
    assert {b.name: (b.role, b.size, b.layout) for b in compat.buffers} == {
        b.name: (b.role, b.size, b.layout) for b in small.buffers}
    assert [b.slot for b in (*compat.outputs, *compat.inputs)] == [4, 5, 6]
    assert [t.size for t in compat.tasks] == [0x274, 0x274]
    names = [{b.slot: b.name for b in p.buffers} for p in (small, compat)]
    for before, after in zip(small.tasks, compat.tasks, strict=True):
        old, new = chip.slots(before.words), chip.slots(after.words)
        assert {names[0][s] for s in old.reads} == {names[1][s] for s in new.reads}
        assert {names[0][s] for s in old.writes} == {names[1][s] for s in new.writes}


def _hwx(corpus: Path) -> dict[str, Program]:
    return {p.stem: read_hwx(p.read_bytes()) for p in sorted((corpus / "apple/hwx").glob("*.hwx"))}


def test_apples_files_read(corpus: Path) -> None:
    programs = _hwx(corpus)
    bindings = {name: {b.slot: (b.name, b.role.value, b.size) for b in p.buffers} for name, p in programs.items()}
    assert bindings["mul_v5"] == {4: ("probs", "output", 4096), 5: ("image", "input", 4096),
                                  6: ("image2", "input", 4096)}
    assert bindings["mul_macos26"] == {4: ("image", "input", 4096), 5: ("image2", "input", 4096),
                                       6: ("probs", "output", 4096)}
    assert bindings["concat"] == {4: ("output@output", "output", 0x100400), 5: ("input_1", "input", 1024),
                                  6: ("input_0", "input", 1 << 20)}
    assert [(t.offset, t.size) for t in programs["concat"].tasks] == [(0, 0x274), (0x300, 0x274)]
    assert [t.size for t in programs["mul_macos26"].tasks] == [0x1F8]
    assert programs["relu"].outputs[0].layout == layout_of((1, 1, 1, 1, 77))
    assert {n: len(p.constants) for n, p in programs.items() if p.constants} == {
        "conv": 0xC0, "conv_golden": 0xC0, "gemm": 0x80000, "gemm_nz": 0x80000, "sigmoid": 0x80}
    assert programs["mul_macos26"].origin["compiler"] == "zin_ane_compiler v9.509.0"


def test_apples_programs_survive_both_layouts(corpus: Path) -> None:
    for program in _hwx(corpus).values():
        assert read_hwx(write_hwx(program)) == program
        compat = read_hwx(write_hwx(program, "compat"))
        assert read_hwx(write_hwx(compat, "compat")) == compat
        if program.tasks[0].size == 0x274:
            assert compat == program


def _recorded(record: dict[str, object]) -> tuple[Program, dict[int, int]]:
    """The program of a record of Apple's compiler, and the addresses recorded for its slots."""
    tasks = tuple(record_tasks(record))
    header: dict[str, list[str]] = record["program"]  # type: ignore[assignment]
    used = [get_chip("h13").slots(t.words) for t in tasks]
    places = {4 + i: int(a, 16) for i, a in enumerate(header["resource_addresses"]) if int(a, 16)}
    surfaces: dict[int, list[dict[str, int]]] = {1: [], 2: []}
    for tensor in record["tensors"]:  # type: ignore[attr-defined]
        surfaces[tensor["binding"]].append(tensor)
    buffers = []
    for slot in sorted(places):
        binding = 2 if any(slot in s.writes for s in used) else 1
        size = surfaces[binding].pop(0)["total_bytes"]
        buffers.append(Buffer(f"port{slot}", slot, (Role.INPUT, Role.OUTPUT)[binding - 1], size))
    if min(places.values()) > 0x30000000:  # what lies before the ports is scratch
        buffers.append(Buffer("scratch", 3, Role.SCRATCH, min(places.values()) - 0x30000000))
        places[3] = 0x30000000
    places |= {0: int(str(header["text_address"]), 16), 1: int(str(header["constant_address"]), 16)}
    size = record["constant"]["size"]  # type: ignore[index]
    return Program("h13", tasks, b"\1" * size, tuple(buffers)), places


def test_addresses_are_those_apples_current_compiler_records(corpus: Path) -> None:
    paths = sorted((corpus / "apple/oracles").glob("*.json"))
    assert paths
    for path in paths:
        record = json.loads(path.read_text())
        program, places = _recorded(record)
        data = write_hwx(program)
        assert read_hwx(data) == program, path.name
        descriptor, _ = read_program(_thread(read_macho(data, MAGIC), 1))
        assert {s: a for s, a in enumerate(descriptor.slots) if a} == places, path.name
        assert descriptor.first_task_words == record["program"]["task_words_minus_one"], path.name


def _thread(file: MachO, flavor: int) -> Thread:
    return next(c for c in file.commands if isinstance(c, Thread) and c.flavor == flavor)


def test_stabs_are_spelled_as_apple_spells_them() -> None:
    buffer = Buffer("probs", 4, Role.OUTPUT, 4096, layout_of((1, 64, 1, 1, 1)))
    (symbol,) = tensor_symbols([buffer], 26)
    assert symbol == Symbol(
        "probs:t26=ar1;0;1;27=s4096n:ar1;0;64;28=s64c:ar1;0;1;29=s64h:ar1;0;1;30=s2w:5", 0x20, description=26)
    assert read_tensors([symbol]) == {"probs": buffer.layout}


def test_layouts_come_from_stabs_where_there_are_no_descriptors(small: Program) -> None:
    file = read_macho(write_hwx(small), MAGIC)
    bare = [c for c in file.commands
            if not isinstance(c, (Ident, Library)) and not (isinstance(c, Thread) and c.flavor == 3)]
    assert read_hwx(write_macho(MachO(file.header, tuple(bare)))) == small
    nameless = [c for c in bare if not isinstance(c, SymbolTable)]
    again = read_hwx(write_macho(MachO(file.header, tuple(nameless))))
    assert [b.name for b in again.buffers] == ["scratch0", "input0", "input1", "output0"]


def _patched(program: Program, command: object, index: int, offset: int, value: int) -> bytes:
    """The program's file with a 32-bit word replaced, at an offset in the index-th command of a kind."""
    data = bytearray(write_hwx(program))
    file = read_macho(bytes(data), MAGIC)
    position = 0x20
    for entry in file.commands:
        if type(entry) is command:
            if index == 0:
                break
            index -= 1
        position += int.from_bytes(data[position + 4:position + 8], "little")
    data[position + offset:position + offset + 4] = value.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(("offset", "value", "message"), [
    (0x28, 0, "no slot points to the scratch"), (0x30, 0x12345678, "does not point to a buffer"),
    (0x810, 0x40000000, "outside the text"), (0x818, 511, "reaches outside"), (0x81C, 1, "goes on"),
    (0x81C, 3, "ends early"), (0x83C, 0xFFFF, "outside its container")])
def test_broken_program_descriptors_are_named(small: Program, offset: int, value: int, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_hwx(_patched(small, Thread, 0, offset, value))


def _linked(task: Task, offset: int, words: int) -> bytes:
    """The task's bytes, changed to lead to another."""
    changed = list(task.words)
    changed[1] = changed[1] & 0xFFFF | words - 1 << 16
    changed[7] = offset
    return struct.pack(f"<{len(changed)}I", *changed)


def test_a_cycle_of_tasks_is_refused(small: Program) -> None:
    first, second = small.tasks
    data = write_hwx(small)
    place = data.index(_linked(second, 0, 1))
    data = data[:place] + _linked(second, first.offset + second.offset, len(second.words)) + data[place + second.size:]
    with pytest.raises(FormatError, match="goes on"):
        read_hwx(data)
    count = data.index(struct.pack("<4I", len(first.words) - 1, 2, 0, 0xFFFF)) + 4
    with pytest.raises(FormatError, match="overlap"):
        read_hwx(data[:count] + b"\xff\xff\xff\x7f" + data[count + 4:])


def test_a_slot_without_a_buffer_is_named(small: Program) -> None:
    scratch = replace(small.buffer("scratch"), slot=9)
    data = write_hwx(replace(small, buffers=(*small.inputs, *small.outputs, scratch)))
    with pytest.raises(FormatError, match="slot 3, which points nowhere"):
        read_hwx(data)


def test_other_generations_are_named(small: Program) -> None:
    data = bytearray(write_hwx(small))
    data[8] = 7
    with pytest.raises(FormatError, match="h16"):
        read_hwx(bytes(data))


@pytest.mark.parametrize(("change", "message"), [
    ({"name": "a:b"}, "colons"), ({"name": "ctx_in"}, "ctx_"), ({"role": Role.STATE}, "state"),
    ({"layout": None}, "no layout"), ({"layout": layout_of((1, 2, 2, 2, 5))}, "N, C, H, W"),
    ({"layout": Layout((1, 4, 1, 2, 5), (1024, 256, 1024, 128, 2)), "size": 1024}, "rows")])
def test_compat_names_what_its_readers_cannot_take(small: Program, change: dict[str, object], message: str) -> None:
    port = small.buffer("a")
    others = tuple(b for b in small.buffers if b is not port)
    program = replace(small, buffers=(*others, replace(port, **change)))  # type: ignore[arg-type]
    assert read_hwx(write_hwx(program)) == program
    with pytest.raises(ProgramError, match=message):
        write_hwx(program, "compat")


@pytest.mark.parametrize(("change", "message"), [
    ({"slot": 1}, "slot 1"), ({"slot": 40}, "slot 40"), ({"size": 0}, "0 bytes"), ({"name": "a\0b"}, "NUL"),
    ({"name": ""}, "1 to"), ({"name": "x" * 5000}, "1 to"), ({"name": "\ud800"}, "UTF-8"),
    ({"size": 10}, "does not fit")])
def test_what_no_file_can_hold_is_refused(small: Program, change: dict[str, object], message: str) -> None:
    port = small.buffer("b")
    others = tuple(b for b in small.buffers if b is not port)
    with pytest.raises(ProgramError, match=message):
        write_hwx(replace(small, buffers=(*others, replace(port, **change))))  # type: ignore[arg-type]


def test_tasks_must_lead_to_each_other(small: Program) -> None:
    first, second = small.tasks
    with pytest.raises(ProgramError, match="links to"):
        write_hwx(replace(small, tasks=(first, replace(second, offset=0x300))))
    with pytest.raises(ProgramError, match="at least one task"):
        write_hwx(replace(small, tasks=()))
    with pytest.raises(ProgramError, match="layout"):
        write_hwx(small, "macos27")


def test_the_identification_is_our_own(small: Program) -> None:
    file = read_macho(write_hwx(small), MAGIC)
    (ident,) = [c.text for c in file.commands if isinstance(c, Ident)]
    assert ident.startswith("ANEC v1\nopenane v")
    assert ident.endswith("-t h13\n")
    assert [s.name for s in file.segments if isinstance(s, Segment)] == [
        "__PAGEZERO", "__DATA", "__FVMLIB", "__FVMLIB", "__FVMLIB", "__TEXT"]
