"""ANEC: Apple's programs as the driver's tools wrap them, slots told by the tasks, and the converter's own verdict."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.h13 import layout_of

from openane.errors import FormatError, ProgramError
from openane.formats import load_program, read_anec, read_hwx, write_anec, write_hwx
from openane.formats.anec import AnecHeader
from openane.formats.reader import ByteReader
from openane.program import Buffer, Program, Role, Task


def test_both_header_sizes_read_back(small: Program) -> None:
    long, short = write_anec(small), write_anec(small, header=0x800)
    assert long[0x1000:] == short[0x800:]
    assert len(long) - len(short) == 0x800
    assert read_anec(long) == read_anec(short)
    assert write_anec(read_anec(long)) == long
    assert read_anec(short).origin["header"] == "0x800"


def test_roles_and_names_follow_the_tasks(small: Program) -> None:
    program = read_anec(write_anec(small))
    assert [(b.name, b.slot, b.role) for b in program.buffers] == [
        ("scratch0", 3, Role.SCRATCH), ("output0", 4, Role.OUTPUT), ("input0", 5, Role.INPUT),
        ("input1", 6, Role.INPUT)]
    assert program.tasks == read_hwx(write_hwx(small, "compat")).tasks
    assert program.outputs[0].layout == small.outputs[0].layout


def test_a_file_with_inputs_in_the_first_slots_is_not_misread(small: Program) -> None:
    """Files of newer compilers, wrapped without renumbering: the header's convention says slot 4 is the output."""
    surface = small.buffer("a").layout
    assert surface
    text = small.text()
    numbers = (1, 4, 2, 5, surface.strides[1], surface.strides[3])
    nchw = (0,) * 24 + numbers * 3 + (0,) * (6 * 25)
    header = AnecHeader(0x4000 + -(-len(text) // 16) * 16, small.tasks[0].size, 2, len(text), 0x4000, 2, 1,
                        (2, 0, 0, 1, 1, 1, 1, *[0] * 25), nchw)
    payload = text.ljust(-(-len(text) // 16) * 16, b"\0") + bytes(0x4000)
    program = read_anec(header.pack().ljust(0x1000, b"\0") + payload)
    assert {b.slot: b.name for b in program.buffers} == {3: "scratch0", 4: "input0", 5: "input1", 6: "output0"}
    assert program.tasks == small.tasks
    assert write_anec(program) == write_anec(small)


def test_the_header_states_the_first_tasks_size(small: Program) -> None:
    data = write_anec(small)
    header = ByteReader(data).record(AnecHeader, 0, "the header")
    assert header.first_task == 0x274
    assert header.text % 16 == 4
    assert header.size == len(data) - 0x1000


def test_apples_programs_are_written_as_the_converter_writes_them(corpus: Path) -> None:
    paths = sorted((corpus / "apple").glob("*/*.anec"))
    assert len(paths) > 20
    for path in paths:
        assert write_anec(read_anec(path.read_bytes())) == path.read_bytes(), path.name
    for name in ("conv", "concat", "mul_v5"):
        hwx = load_program(corpus / f"apple/hwx/{name}.hwx")
        anec = load_program(corpus / f"apple/hwx/{name}.anec")
        assert (hwx.tasks, hwx.constants) == (anec.tasks, anec.constants)
        assert write_anec(hwx) == (corpus / f"apple/hwx/{name}.anec").read_bytes()


@pytest.mark.parametrize(("offset", "value", "message"), [
    (0x00, 1, "smaller than its text"), (0x08, 0, "first task"), (0x08, 0x276, "first task"),
    (0x08, 0x800, "first task"), (0x0C, 1, "goes on"), (0x0C, 7, "ends early"),
    (0x28 + 4 * 3, 0, "slot 3, which has no memory"), (0x28 + 4 * 4, 0xFFFFFFFF, "address space"),
    (0xA8 + 48 * 4, 10**6, "does not fit"), (0xA8 + 48 * 4 + 8, 0, "positive")])
def test_broken_headers_are_named(small: Program, offset: int, value: int, message: str) -> None:
    data = bytearray(write_anec(small))
    data[offset:offset + 4] = value.to_bytes(4, "little")
    with pytest.raises(FormatError, match=message):
        read_anec(bytes(data))


def test_a_payload_may_be_padded_with_zeros(small: Program) -> None:
    data = bytearray(write_anec(small))
    data[0:8] = (int.from_bytes(data[0:8], "little") + 0x600).to_bytes(8, "little")
    assert read_anec(bytes(data) + bytes(0x600)) == read_anec(write_anec(small))
    with pytest.raises(FormatError, match="goes on after its constants"):
        read_anec(bytes(data) + bytes(0x5FF) + b"x")


def test_the_length_must_fit_a_header(small: Program) -> None:
    with pytest.raises(FormatError, match="no header size"):
        read_anec(write_anec(small) + bytes(16))
    with pytest.raises(FormatError, match="ANEC header"):
        read_anec(bytes(100))


def test_what_the_driver_cannot_run_is_refused(small: Program) -> None:
    with pytest.raises(ProgramError, match="0x1000"):
        write_anec(small, header=0x900)
    port = small.buffer("a")
    others = tuple(b for b in small.buffers if b is not port)
    changes = (({"role": Role.STATE}, "state"), ({"layout": layout_of((1, 2, 2, 2, 5))}, "N, C, H, W"))
    for change, message in changes:
        with pytest.raises(ProgramError, match=message):
            write_anec(replace(small, buffers=(*others, replace(port, **change))))  # type: ignore[arg-type]
    scratch = tuple(Buffer(f"s{i}", 10 + i, Role.SCRATCH, 64) for i in range(3))
    with pytest.raises(ProgramError, match="scratch"):
        write_anec(replace(small, buffers=(*small.buffers, *scratch)))
    with pytest.raises(ProgramError, match="links to"):
        write_anec(replace(small, tasks=(Task(small.tasks[0].words, 0),)))


def _converter() -> list[str]:
    if command := shutil.which("anecc"):
        return [command]
    return [sys.executable, "-c", "from anecc.run import run; run()"]


def _converted(program: Program, folder: Path) -> bytes:
    """What the driver's own converter makes of the program's compat file."""
    source, target = folder / "program.hwx", folder / "program.anec"
    source.write_bytes(write_hwx(program, "compat"))
    done = subprocess.run([*_converter(), str(source), "-o", str(target)], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    return target.read_bytes()


@pytest.mark.needs("anecc")
def test_the_converter_makes_the_same_file_of_a_compat_file(small: Program, tmp_path: Path) -> None:
    assert _converted(small, tmp_path) == write_anec(small, header=0x1000)


@pytest.mark.needs("anecc")
def test_the_converter_takes_apples_programs_rewritten(corpus: Path, tmp_path: Path) -> None:
    for path in (corpus / "apple/hwx/mul_macos26.hwx", corpus / "apple/hwx/concat.hwx",
                 corpus / "apple/anec/softmax.anec", corpus / "apple/anec/frac.anec"):
        program = load_program(path)
        assert _converted(program, tmp_path) == write_anec(program, header=0x1000), path.name
