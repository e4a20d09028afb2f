"""The verifier against strict execution, for programs of H14 to H18: what it accepts stays inside its buffers, reads
nothing unwritten."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support import mutants, raw_checks
from support.compiled_programs import SHAPES, compiled_programs

from openane.chips import compiled_generations, get_chip
from openane.errors import AneError
from openane.program import Program
from openane.program.verify import sentence, violations
from openane.simulator.strict import strict

LATER = compiled_generations()[1:]
DEFAULT = 120
FEWER = 40


def defects_of(program: Program) -> list[str]:
    """What strict execution, the order of the tasks and the slots show; empty for a clean program."""
    order, slot = raw_checks.chain_defect(program), raw_checks.unbound_slot(program)
    found = [order] if order else []
    found += [f"slot {slot}"] if slot is not None else []
    return found + [str(fault) for fault in strict(program).faults]


@pytest.mark.parametrize("target", LATER)
def test_compiled_programs_are_clean(target: str) -> None:
    programs = compiled_programs(target)
    assert set(programs) == set(SHAPES)
    for name, program in programs.items():
        assert violations(program) == (), name
        assert defects_of(program) == [], name
        assert strict(program).executed, name


@pytest.mark.parametrize("target", LATER)
def test_what_is_accepted_runs_clean(target: str) -> None:
    count = int(os.environ.get("OPENANE_FUZZ", DEFAULT if target in ("h14", "h16", "h18") else FEWER))
    wrong, refused = [], 0
    for mutant in mutants.mutants(compiled_programs(target), count, 1):
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
    assert refused > count // 2


@pytest.mark.parametrize("target", LATER)
@pytest.mark.parametrize(("base", "name", "value", "rule"), [
    ("convolution", "TileDMASrc.PlaneStride.Stride", 1 << 20, "extents"),
    ("convolution", "TileDMADst.BaseAddr.Addr", 64, "extents"),
    ("convolution", "KernelDMA.CoeffBfrSize[1].Size", 64, "stream_sizes"),
    ("convolution", "KernelDMA.CoeffDMAConfig[2].En", 0, "stream_sizes"),
    ("convolution", "Header.Task.TID", 3, "position"),
    ("convolution", "Slots.WBase.Slot", 30, "bound_slots"),
    ("convolution", "Slots.KBase0.Relative", 0, "coefficient_enables"),
    ("convolution", "KernelDMA.Control.Kernels", 0, "coefficient_enables"),
    ("convolution", "NE.MACCfg.NoKernel", 1, "coefficient_uses"),
    ("two_sources", "TileDMASrc.DMAConfig.En", 0, "memory_enables"),
    ("convolution", "Common.Cfg.ContextSwitchIn", 1, "idle_fields"),
    ("two_sources", "Slots.RBase1.Relative", 0, "memory_slots"),
])
def test_each_kind_of_mistake_is_named(target: str, base: str, name: str, value: int, rule: str) -> None:
    chip, program = get_chip(target), compiled_programs(target)[base]
    fields = chip.decode(program.tasks[0].words)
    assert name in fields.values
    changed = chip.encode(replace(fields, values={**fields.values, name: value}))
    assert rule in {violation.rule for violation in violations(mutants.with_task(program, 0, changed))}


@pytest.mark.parametrize("target", LATER)
def test_every_rule_has_a_sentence(target: str) -> None:
    for rule in get_chip(target).rules:
        text = sentence(rule)
        assert text.endswith(".")
        assert len(text) > 30


@pytest.mark.parametrize("target", LATER)
def test_a_mode_without_a_meaning_is_refused(target: str) -> None:
    chip, program = get_chip(target), compiled_programs(target)["convolution"]
    fields = chip.decode(program.tasks[0].words)
    mode = "NE.MACCfg.OpMode"
    changed = replace(fields, values={n: v for n, v in fields.values.items() if n != mode},
                      rest={**fields.rest, "NE.MACCfg": chip.bank.locate(mode)[2].mask})
    rules = {violation.rule for violation in violations(mutants.with_task(program, 0, chip.encode(changed)))}
    assert {"described", "described_bits"} <= rules


@pytest.mark.parametrize("target", [name for name in LATER if get_chip(name).limits.slots.data_set is not None])
def test_data_sets_name_no_slot_that_is_not_bound(target: str) -> None:
    chip, program = get_chip(target), compiled_programs(target)["two_sources"]
    fields = chip.decode(program.tasks[0].words)
    scratch = {name: chip.limits.slots.scratch for name in fields.values if name.endswith("ResultDataSet.Slot")}
    assert scratch
    changed = mutants.with_task(program, 0, chip.encode(replace(fields, values=fields.values | scratch)))
    assert raw_checks.unbound_slot(changed) == chip.limits.slots.scratch
    assert "bound_slots" in {violation.rule for violation in violations(changed)}
