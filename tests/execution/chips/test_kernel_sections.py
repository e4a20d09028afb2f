"""Programs whose weights lie in a kernel section: written, read, listed, compared, changed and simulated."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kernel_programs import BEFORE, WEIGHTS, apart, plain

from openane.chips.indexed import IndexedChip
from openane.cli.info import describe_program
from openane.compiler.artifact.cache_program import read_cached, write_cached
from openane.compiler.patch_model import patch_task
from openane.devices.constants import require_same
from openane.devices.packer import pack, unpack
from openane.devices.simulator import SimulatorExecutable
from openane.errors import AneError, DeviceError, FormatError, ProgramError, SimulationError
from openane.formats import read_hwx, write_hwx
from openane.formats.hwx import MAGIC
from openane.formats.listing import assemble, disassemble_bytes
from openane.formats.macho import MachO, Segment, read_macho, write_macho
from openane.program import Buffer, Program, Role
from openane.program.diff import diff, diff_lines
from openane.program.patch import patch_constants
from openane.program.text import disassemble
from openane.program.verify import violations
from openane.program.verify.constants import ConstantRules
from openane.program.verify.verified import digest
from openane.simulator import load
from openane.simulator.strict import strict
from openane.timing.program import operations_of

INPUT = (np.arange(256) % 7 - 3).reshape(1, 16, 4, 4).astype(np.float16)


def run(program: Program) -> np.ndarray:
    loaded = load(program)
    pack(INPUT, program.buffer("x").layout, loaded.buffers["x"], "x")
    loaded.run()
    return unpack(program.buffer("y").layout, loaded.buffers["y"], (1, 32, 4, 4))


def product(weights: np.ndarray) -> np.ndarray:
    return np.einsum("oi,nihw->nohw", weights[:, :, 0, 0].astype(np.float32), INPUT.astype(np.float32))


def test_the_kernel_dma_reads_the_slot_after_the_last_buffer() -> None:
    program = apart()
    assert program.constant_ranges == {1: (0, len(BEFORE)), 8: (len(BEFORE), len(program.constants))}
    assert (bytes(program.constants_of(1)), bytes(program.constants_of(8))) == (BEFORE, plain().constants)
    assert bytes(program.constants_of(9)) == b""
    assert plain().constant_ranges == {1: (0, len(plain().constants))}
    assert plain().constants_of(1) is plain().constants


def test_it_computes_what_its_h13_program_computes() -> None:
    assert np.array_equal(run(apart()), run(plain()))
    assert np.array_equal(run(apart()), product(WEIGHTS))


def test_strict_execution_and_the_verifier_follow_reads_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without L2 rings, which tasks of H16 do not state."""
    monkeypatch.setattr(IndexedChip, "passages", lambda self, fields: ())
    report = strict(apart())
    assert not report.faults
    assert (report.read["kernels"].any(), report.read["constants"].any()) == (True, False)
    assert not rules(apart()) - {"text", "links", "rules_known"}  # what is not known of tasks that are not linked
    short = replace(apart(), constants=apart().constants[:-64])
    assert "stream_extents" in rules(short)
    assert {fault.kind for fault in strict(short).faults} == {"outside"}
    assert "bound_slots" in rules(replace(apart(), kernel_starts=()))


def rules(program: Program) -> set[str]:
    """The rules a program breaks."""
    return {each.rule for each in violations(program)}


def test_files_have_it_in_a_segment_of_its_own() -> None:
    written = write_hwx(apart())
    assert read_hwx(written) == apart()
    file = read_macho(written, MAGIC)
    (segment,) = (s for s in file.segments if s.name == "__KERN_0")
    assert segment.data[:len(plain().constants)] == plain().constants
    alone = replace(apart(), constants=plain().constants, kernel_starts=(0,))
    assert read_hwx(write_hwx(alone)) == alone
    two = replace(apart(), kernel_starts=(len(BEFORE), len(BEFORE) + 64))
    assert read_hwx(write_hwx(two)) == two
    assert read_cached(write_cached(two)) == two


def test_listings_say_where_the_weights_are() -> None:
    written = write_hwx(apart())
    listing = disassemble_bytes(written)
    assert "weights from kernels+0x0" in listing.text
    assert listing.undescribed == 0
    assert assemble(listing.text, lambda _: listing.sidecar) == written
    text = "\n".join(disassemble(apart()))
    assert f"constants  {len(BEFORE)} bytes" in text
    assert f"kernels    {len(plain().constants)} bytes  slot 8" in text
    assert "weights from kernels+0x0" in text
    assert describe_program(apart())["kernel_bytes"] == len(plain().constants)
    assert "kernel_bytes" not in describe_program(plain())


def test_new_weights_are_written_into_the_kernel_section() -> None:
    weights = (WEIGHTS * 2).astype(np.float16)
    patched = patch_task(apart(), 0, weights)
    assert np.array_equal(run(patched.program), product(weights))
    assert patched.ranges[0][0] >= len(BEFORE)
    changes = diff(apart(), patched.program).constants
    assert {change.task for change in changes} == {0}
    assert sum(change.halfwords for change in changes) == np.count_nonzero(WEIGHTS)
    assert any("coefficients of core 0" in line for line in diff_lines(diff(apart(), patched.program)))
    other = patch_constants(apart(), {0: b"\xff"}).program
    assert [(change.task, change.what) for change in diff(apart(), other).constants] == [
        (None, "bytes no compared task reads")]


def test_a_loaded_program_takes_new_weights() -> None:
    weights = (WEIGHTS * 2).astype(np.float16)
    with SimulatorExecutable(apart(), "auto", None, verified=False) as executable:
        executable.run({"x": INPUT})
        executable.update_constants(patch_task(apart(), 0, weights).program.constants)
        assert np.array_equal(executable.run({"x": INPUT})["y"].reshape(1, 32, 4, 4), product(weights))
        executable.update_constants(apart().constants)
        assert np.array_equal(executable.run({"x": INPUT})["y"].reshape(1, 32, 4, 4), product(WEIGHTS))
    with pytest.raises(DeviceError, match="kernel_starts"):
        require_same(apart(), replace(apart(), kernel_starts=(64,)))
    assert not ConstantRules(apart()).violations(apart().constants, [(0, len(apart().constants))])


def test_the_same_bytes_elsewhere_are_another_program() -> None:
    assert digest(apart()) != digest(replace(apart(), kernel_starts=(64,)))
    assert operations_of(apart(), shared=True) == operations_of(apart())


@pytest.mark.parametrize(("starts", "message"), [((500_000,), "none empty"), ((-1,), "none empty"), ((64, 64), "none"),
                                                 ((128, 64), "one after another")])
def test_sections_must_follow_one_another(starts: tuple[int, ...], message: str) -> None:
    wrong = replace(apart(), kernel_starts=starts)
    with pytest.raises(ProgramError, match=message):
        write_hwx(wrong)
    assert any(message in str(each) for each in violations(wrong))


def test_h13_has_no_kernel_sections() -> None:
    wrong = replace(plain(), kernel_starts=(64,))
    with pytest.raises(ProgramError, match="the kernel DMA of h13 reads the constants"):
        write_hwx(wrong)
    assert any("kernel sections" in str(each) for each in violations(wrong))


def test_slots_of_their_own() -> None:
    last = Buffer("z", 31, Role.STATE, 64)
    with pytest.raises(ProgramError, match="slots up to 32"):
        write_hwx(replace(apart(), buffers=(*apart().buffers, last)))
    data = Buffer("z", 4, Role.STATE, 64)
    with pytest.raises(ProgramError, match="bound to slot 4"):
        write_hwx(replace(apart(), buffers=(*apart().buffers, data)))
    with pytest.raises(SimulationError, match="slot 8"):
        load(replace(apart(), kernel_starts=()))


def changed(file: MachO, **parts: Any) -> bytes:
    """The file with its kernel segment changed."""
    commands = tuple(replace(c, **parts) if isinstance(c, Segment) and c.name == "__KERN_0" else c
                     for c in file.commands)
    return write_macho(MachO(file.header, commands))


def test_damaged_files_say_what_is_wrong_with_the_kernel_section() -> None:
    file = read_macho(write_hwx(apart()), MAGIC)
    (segment,) = (s for s in file.segments if s.name == "__KERN_0")
    (section,) = segment.sections
    away = replace(segment, vmaddr=segment.vmaddr + 0x4000)
    for parts, message in (({"sections": ()}, "__KERN_0"), ({"sections": (replace(section, size=0),)}, "not empty"),
                           ({"sections": (replace(section, address=away.vmaddr),), "vmaddr": away.vmaddr}, "no slot"),
                           ({"data": b""}, "not in the file"), ({"name": "__OTHER"}, "slot 8")):
        with pytest.raises(FormatError, match=message):
            read_hwx(changed(file, **parts))
    header = replace(file.header, cpusubtype=6)
    with pytest.raises(FormatError, match="kernel"):
        read_hwx(write_macho(MachO(header, file.commands)))


@settings(max_examples=60, deadline=None)
@given(places=st.lists(st.tuples(st.integers(0, 0x2000), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_raise_nothing_but_typed_errors(places: list[tuple[int, int]]) -> None:
    written = bytearray(write_hwx(apart()))
    for place, value in places:
        written[place] = value
    with contextlib.suppress(AneError):
        read_hwx(bytes(written))
