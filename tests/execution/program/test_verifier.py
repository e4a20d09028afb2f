"""The verifier against strict execution: what it accepts stays inside its buffers and reads nothing unwritten."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support import mutants, raw_checks
from support.h13 import layout_of
from support.verifier_programs import base_programs, one_to_one
from support.verifier_programs import program as program_of

from openane.chips import TaskLink, get_chip
from openane.chips.h13.idle import FREE
from openane.cli import main
from openane.devices import open_device
from openane.engine import Access, Elementwise
from openane.errors import AneError, DeviceError, ProgramError, VerifyError
from openane.formats import load_program, save_program
from openane.program import Program, Role
from openane.program.verify import RULES, Verified, digest, sentence, verify, verify_now, violations
from openane.simulator.strict import strict

DEFAULT = 600


BASES = base_programs()
CHIP = get_chip("h13")


def defects_of(program: Program) -> list[str]:
    """What strict execution, the chain walk and the slot check find; empty for a clean program."""
    chain, slot = raw_checks.chain_defect(program), raw_checks.unbound_slot(program)
    found = [chain] if chain else []
    found += [f"slot {slot}"] if slot is not None else []
    return found + [str(fault) for fault in strict(program).faults]


@pytest.mark.parametrize("name", sorted(BASES))
def test_base_programs_are_clean(name: str) -> None:
    assert violations(BASES[name]) == ()
    assert defects_of(BASES[name]) == []
    assert strict(BASES[name]).executed


def check_mutants(programs: dict[str, Program], count: int, seed: int) -> int:
    """Every mutant: refused, or clean. Returns how many were refused."""
    wrong, refused = [], 0
    for mutant in mutants.mutants(programs, count, seed):
        if violations(mutant.program):
            refused += 1
            continue
        try:
            defects = defects_of(mutant.program)
        except AneError as error:
            defects = [f"{type(error).__name__}: {error}"]
        if defects:
            wrong.append(f"{mutant.base}, {mutant.what}: {defects[0]}")
    assert not wrong, "\n".join(wrong[:20])
    return refused


def test_what_is_accepted_runs_clean() -> None:
    count = int(os.environ.get("OPENANE_FUZZ", DEFAULT))
    assert check_mutants(BASES, count, 1) > count // 2


def test_small_apple_programs_and_their_mutants(corpus: Path) -> None:
    names = ("conv.hwx", "mul_macos26.hwx", "mul_v5.hwx", "relu.hwx", "sigmoid.hwx", "sum.hwx", "conv.anec")
    programs = {name: load_program(corpus / "apple/hwx" / name) for name in names}
    assert all(not defects_of(program) for program in programs.values())
    count = int(os.environ.get("OPENANE_FUZZ", DEFAULT)) // 4
    assert check_mutants(programs, count, 2) > count // 2


def test_every_apple_program_passes(corpus: Path) -> None:
    files = sorted((corpus / "apple").glob("*/*.hwx")) + sorted((corpus / "apple").glob("*/*.anec"))
    found = {path.name: [str(v) for v in violations(load_program(path))] for path in files}
    assert len(files) >= 36
    assert not {name: reasons for name, reasons in found.items() if reasons}


def test_a_refusal_lists_every_violation() -> None:
    program = BASES["softmax"]
    fields = CHIP.decode(program.tasks[0].words)
    changed = {**fields.values, "Header.Bases.RBase0": 9, "TileDMASrc.PlaneStride.Stride": 1 << 20,
               "Header.Task.TID": 3}
    broken = mutants.with_task(program, 0, CHIP.encode(replace(fields, values=changed)))
    with pytest.raises(VerifyError) as caught:
        verify(broken)
    found = {(v.task, v.field): v for v in caught.value.violations}  # type: ignore[attr-defined]
    assert {(0, "Header.Bases.RBase0"), (0, "Header.Task.TID")} <= set(found)
    unbound = found[0, "Header.Bases.RBase0"]
    assert (unbound.value, unbound.rule) == (9, "bound_slots")
    assert "must be bound to a buffer" in str(caught.value)


@pytest.mark.parametrize(("name", "value", "rule"), [
    ("TileDMASrc.PlaneStride.Stride", 1 << 20, "extents"),
    ("TileDMADst.BaseAddr.Addr", 64, "extents"),
    ("Header.Bases.WBase", 4, "roles"),
    ("Header.Bases.WBase", 1, "roles"),
    ("Common.OutDim.H", 12, "real_windows"),
    ("KernelDMA.CoeffBfrSize[1].Size", 64, "stream_sizes"),
    ("KernelDMA.CoeffBaseAddr[0].Addr", 1 << 12, "stream_extents"),
    ("KernelDMA.CoeffDMAConfig[2].En", 0, "stream_sizes"),
    ("Header.NextPointer.Offset", 0x300, "links"),
    ("Common.Cfg.TaskType", "unary", "one_engine"),
    ("TileDMASrc.Fmt.MemFmt", "int8", "element_formats"),
    ("NE.KernelCfg.PalettizedEn", 1, "idle_fields"),
    ("L2.SourceBase.Addr", (1 << 21) - 16, "ring_extents"),
])
def test_each_kind_of_mistake_is_named(name: str, value: object, rule: str) -> None:
    program = BASES["convolution"]
    fields = CHIP.decode(program.tasks[0].words)
    changed = CHIP.encode(replace(fields, values={**fields.values, name: value}))  # type: ignore[dict-item]
    assert rule in {v.rule for v in violations(mutants.with_task(program, 0, changed))}


def test_a_verified_program_is_made_by_verify_alone() -> None:
    program = BASES["chain"]
    verified = verify(program)
    assert verified.program is program
    assert verified.unchanged()
    assert verified.digest == digest(program) != digest(BASES["concat"])
    object.__setattr__(program, "constants", b"other")
    try:
        assert not verified.unchanged()
    finally:
        object.__setattr__(program, "constants", b"")
    with pytest.raises(ProgramError, match=r"only .*verify"):
        Verified(program, verified.digest, (), None)


def test_what_was_verified_for_one_load_is_not_loaded_later() -> None:
    program = BASES["chain"]
    passing = verify_now(program)
    assert passing.program is program
    assert passing.operations == verify(program).operations
    assert passing.digest is None
    assert not passing.unchanged()
    with open_device("simulator") as device:
        with pytest.raises(DeviceError, match="no longer what was verified"):
            device.load(passing)
        device.load(verify(program)).close()


def test_every_rule_has_a_sentence() -> None:
    for rule in (*RULES, *CHIP.rules):
        text = sentence(rule)
        assert text.endswith(".")
        assert len(text) > 30


def test_every_field_is_accounted_for() -> None:
    """A field that may hold anything is listed as free; every other one, changed in some base, is noticed or read."""
    names = {mutants.without_index(f"{name}.{field.name}") for bank in (CHIP.header, CHIP.bank)
             for name, (_, register) in bank.by_name.items() for field in register.fields}
    assert set(FREE) <= names
    unseen = names - set(FREE) - NEVER_IN_USE
    for program in BASES.values():
        for task in program.tasks:
            unseen -= matters(task.words, unseen)
    assert unseen == set()


NEVER_IN_USE = {"Header.Dependency.DTID", "KernelDMA.AuxBaseAddr.Addr"}
"""Checked elsewhere, or of streams that are never enabled."""


def matters(words: tuple[int, ...], names: set[str]) -> set[str]:
    """Names of fields of a task that another value of changes the operation or breaks a rule."""
    fields = CHIP.decode(words)
    found = set()
    for name, value in fields.values.items():
        plain = mutants.without_index(name)
        if plain not in names or plain in found:
            continue
        field = (CHIP.header if name.startswith("Header.") else CHIP.bank).locate(name)[2]
        choices = sorted(field.values) if field.kind == "enum" else (
            [2.0, 3.0] if field.kind in ("fp16", "fp32") else list(field.range))
        for other in choices:
            if other == value:
                continue
            changed = CHIP.encode(replace(fields, values={**fields.values, name: other}))
            if differs(words, changed) or any(True for rule in CHIP.rules
                                              for _ in rule(CHIP.decode(changed), TaskLink(CHIP, 0, 1, [None]))):
                found.add(plain)
                break
    return found


def differs(words: tuple[int, ...], changed: tuple[int, ...]) -> bool:
    """Whether two tasks do different things, or the second does nothing that is described."""
    try:
        after = CHIP.operation(changed)
        later = (CHIP.passages(CHIP.decode(changed)), CHIP.next_task(changed))
    except ProgramError:
        return True
    return CHIP.operation(words) != after or (CHIP.passages(CHIP.decode(words)), CHIP.next_task(words)) != later


def broken() -> Program:
    """A program that reads what nobody has written; the simulator alone would run it."""
    program = BASES["chain"]
    buffers = (replace(b, role=Role.SCRATCH) if b.name == "x" else b for b in program.buffers)
    return replace(program, buffers=tuple(buffers))


def test_devices_take_verified_programs_only() -> None:
    with open_device("simulator") as device:
        with pytest.raises(VerifyError, match="written before they are read"):
            device.load(broken())
        device.load(BASES["chain"]).close()
        verified = verify(BASES["concat"])
        device.load(verified).close()
        object.__setattr__(verified, "digest", "of something else")
        with pytest.raises(DeviceError, match="no longer what was verified"):
            device.load(verified)
    with open_device("simulator?verify=off") as device:
        device.load(broken()).close()
    with pytest.raises(DeviceError, match="verify=maybe"):
        open_device("simulator?verify=maybe")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_verb_lists_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    file = save_program(BASES["two_sources"], tmp_path / "two.hwx")
    options = ["--json"] if as_json else []
    assert main(["verify", str(file), *options]) == 0
    text = capsys.readouterr().out
    if as_json:
        assert json.loads(text)["programs"][0]["verified"] is True
    else:
        assert text.startswith("verified: 2 tasks, 6 accesses, 0 coefficient streams, 4 buffers")
    program = BASES["two_sources"]
    words = list(program.tasks[1].words)
    fields = CHIP.decode(words)
    changed = CHIP.encode(replace(fields, values={**fields.values, "TileDMASrc.BaseAddr.Addr": 1 << 20}))
    file = save_program(mutants.with_task(program, 1, changed), tmp_path / "broken.hwx")
    assert main(["verify", str(file), *options]) == 1
    text = capsys.readouterr().out
    if as_json:
        found = json.loads(text)["programs"][0]["violations"]
        assert {v["field"] for v in found} == {"TileDMASrc.BaseAddr.Addr"}
    else:
        assert "task 1  TileDMASrc.BaseAddr.Addr  bytes 0x100000 to " in text
        assert text.rstrip().endswith("violations")


def test_many_tasks_take_time_in_proportion() -> None:
    """Rows written one by one, each by a task of its own, are one tensor in the end."""
    rows = 300
    whole, row = (1, 16, 1, rows, 20), (1, 16, 1, 1, 20)
    strides = layout_of(whole).strides
    operations = [Elementwise(first=Access(slot=4, offset=64 * i, shape=row, strides=strides),
                              result=Access(slot=5, offset=64 * i, shape=row, strides=strides))
                  for i in sorted(range(rows), key=lambda i: (i % 3, i))]
    assert violations(program_of(operations, one_to_one(whole))) == ()
    assert violations(program_of(operations[1:], one_to_one(whole)))[0].rule == "outputs_complete"
