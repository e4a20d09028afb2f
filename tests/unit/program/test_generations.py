"""The text of tasks of every generation: every described field changes its bits and no others."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from openane.chips import Chip, TaskFields, described_generations, get_chip
from openane.program import Task
from openane.program.listing import parse_task, read_lines, task_lines
from openane.registers import Field, Value

LONGEST_RUN = 60
STRUCTURE = {"h13": {"Control.TDE", "KernelBases.KBase0"}}
LATER_STRUCTURE = {"Task.TaskSize", "Control.TSR", "Control.TDE"}
"""Header fields that say how many words follow: they cannot change alone."""
REGISTERS = 1 << 28  # tables use addresses beyond for what a stream holds besides registers


def full_runs(chip: Chip) -> tuple[tuple[int, int], ...]:
    """Runs that write every register of a generation, coefficient memory (thousands of words) apart."""
    runs = []
    for block in chip.bank.blocks:
        addresses = sorted(a for a, _, register in block.words() if a < REGISTERS and register.count <= LONGEST_RUN)
        for _, group in groupby(enumerate(addresses), key=lambda pair: pair[1] - 4 * pair[0]):
            run = [address for _, address in group]
            runs += [(run[i], len(run[i:i + LONGEST_RUN])) for i in range(0, len(run), LONGEST_RUN)]
    return tuple(runs)


def sample(field: Field, draw: random.Random) -> Value:
    if field.kind == "enum":
        return draw.choice(list(field.values))
    if field.kind in ("fp16", "fp32"):
        return draw.choice((0.5, -2.0, 65504.0))
    low, high = field.range
    step = max(1 << field.shift, field.align)
    return low + draw.randrange((high - low) // step + 1) * step


@pytest.mark.parametrize("name", described_generations())
def test_every_field_changes_its_bits_and_no_others(name: str) -> None:
    chip, draw = get_chip(name), random.Random(2)
    runs = full_runs(chip)
    words = tuple(chip.encode(TaskFields({}, {}, runs)))
    lines = list(task_lines(chip, 0, Task(words)))
    assert not any(line.startswith("  words") for line in lines)
    position, places = len(words) - sum(1 + count for _, count in runs), {}
    for base, count in runs:
        places |= {base + 4 * i: position + 1 + i for i in range(count)}
        position += 1 + count
    fields = [(address, full, field) for address, (full, register) in chip.bank.by_address.items()
              if address in places for field in register.fields]
    assert len(fields) > 200
    records = [line for line in lines if line.startswith("  records")]
    before = parse(chip, [lines[0], *records], len(words))
    for address, full, field in fields:
        value = sample(field, draw)
        block, _, within = full.partition(".")
        text = [lines[0], f"  {block}", f"    {within}.{field.name} {value}", *records]
        found = parse(chip, text, len(words))
        changed = [i for i, (a, b) in enumerate(zip(before, found, strict=True)) if a != b]
        assert set(changed) <= {places[address]}, f"{full}.{field.name} = {value} changes other words"
        assert found[places[address]] & ~field.mask == before[places[address]] & ~field.mask, f"{full}.{field.name}"
        assert found[places[address]] & field.mask == field.encode(value), f"{full}.{field.name} = {value}"
    assert parse(chip, lines, len(words)) == words


@pytest.mark.parametrize("name", described_generations())
def test_every_header_field_changes_its_bits_and_no_others(name: str) -> None:
    chip, draw = get_chip(name), random.Random(3)
    words = tuple(chip.encode(TaskFields({}, {}, full_runs(chip))))
    lines = list(task_lines(chip, 0, Task(words)))
    records = [line for line in lines if line.startswith("  records")]
    before = parse(chip, [lines[0], *records], len(words))
    structure = STRUCTURE.get(name, LATER_STRUCTURE)
    tried = 0
    for address, (full, register) in chip.header.by_address.items():
        within = full.partition(".")[2]
        for field in register.fields:
            if f"{within}.{field.name}" in structure or address // 4 >= len(before) - sum(
                    1 + count for _, count in full_runs(chip)):
                continue
            value = sample(field, draw)
            found = parse(chip, [lines[0], "  Header", f"    {within}.{field.name} {value}", *records], len(words))
            changed = [i for i, (a, b) in enumerate(zip(before, found, strict=True)) if a != b]
            assert set(changed) <= {address // 4}, f"{within}.{field.name} = {value} changes other words"
            assert found[address // 4] & ~field.mask == before[address // 4] & ~field.mask
            assert found[address // 4] & field.mask == field.encode(value)
            tried += 1
    assert tried >= 8


def parse(chip: Chip, lines: list[str], size: int) -> tuple[int, ...]:
    head, *members = read_lines("\n".join(lines))
    return parse_task(chip, size, head.first, members)
