"""Generations other than H13: tables, streams byte for byte, refusals by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.chips import Chip, described_generations, get_chip, recognised_generations
from openane.chips.chip import TaskFields
from openane.chips.runs import VIRTUAL
from openane.errors import ProgramError, UnsupportedError
from openane.program import Task
from openane.program.listing import parse_task, read_lines, task_lines
from openane.registers import Evidence, FieldError, check_bank

LATER = [name for name in described_generations() if name != "h13"]
DRAWN = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
WORDS = {  # of each block, as Apple's compiler allots them
    "h14": {"KernelDMA": 70, "Common": 19, "TileDMASrc": 53, "L2": 25, "PE": 5, "NE": 5, "TileDMADst": 10},
    "h15": {"KernelDMA": 72, "Common": 19, "TileDMASrc": 69, "L2": 30, "PE": 15, "NE": 11, "TileDMADst": 21,
            "CacheDMA": 12},
    "h16": {"KernelDMA": 72, "Common": 23, "TileDMASrc": 81, "L2": 41, "PE": 15, "NE": 12, "TileDMADst": 21,
            "CacheDMA": 12},
    "h17": {"KernelDMA": 81, "Common": 23, "TileDMASrc": 81, "L2": 42, "PE": 16, "NE": 13, "TileDMADst": 23,
            "CacheDMA": 14},
    "h18": {"KernelDMA": 83, "Common": 23, "TileDMASrc": 81, "L2": 43, "PE": 16, "NE": 13, "TileDMADst": 27,
            "CacheDMA": 14},
}


WORD = st.integers(0, 2**32 - 1)
HEADER_WORDS = {"h14": 8, "h15": 8, "h16": 9, "h17": 9, "h18": 9}


def popcount(mask: int) -> int:
    return bin(mask).count("1")


@st.composite
def runs(draw: st.DrawFn, chip: Chip) -> list[int]:
    """A run's head and its words: most at known registers, heads with any bits beside the address and count."""
    known = [a for a in chip.bank.by_address if a < VIRTUAL]
    address = draw(st.sampled_from(known) | st.integers(0, 2**15 - 1).map(lambda n: 4 * n)) // 4
    if draw(st.booleans()):
        mask = draw(st.integers(0, 0xFFFF) | st.just(0))
        head, count = 1 << 31 | mask << 15 | address, 1 + popcount(mask)
    else:
        count = draw(st.integers(1, 12))
        said = draw(st.sampled_from((0, 1 << 29)) | st.integers(0, 0x3FF).map(lambda n: n << 21))
        head = said | (count - 1) << 15 | address
    return [head, *draw(st.lists(WORD | st.just(0), min_size=count, max_size=count))]


@st.composite
def tasks(draw: st.DrawFn, chip: Chip) -> tuple[int, ...]:
    """A task descriptor whose runs end with it and whose header states its size."""
    count = HEADER_WORDS[chip.name]
    header = draw(st.lists(WORD, min_size=count, max_size=count))
    extended = draw(st.booleans())
    header[-1] = header[-1] | 3 if extended else header[-1] & ~2
    if extended:
        header.append(draw(WORD))
    body = [word for run in draw(st.lists(runs(chip), min_size=1, max_size=12)) for word in run]
    if draw(st.booleans()):
        body += body  # every register written a second time
    header[0] = header[0] & ~(0x7FF << 16) | (len(header) + len(body)) << 16
    return (*header, *body)


@pytest.mark.parametrize("name", LATER)
def test_tables_have_no_defect_and_cover_every_word(name: str) -> None:
    chip = get_chip(name)
    assert check_bank(chip.header) == []
    assert check_bank(chip.bank) == []
    blocks = {b.name: [a for a, _, _ in b.words()] for b in chip.bank.blocks if b.base < VIRTUAL}
    assert {n: len(a) for n, a in blocks.items()} == WORDS[name]
    for block, addresses in blocks.items():
        assert sorted(addresses) == list(range(addresses[0], addresses[0] + 4 * len(addresses), 4)), block
    assert not any(f.evidence is Evidence.PROVED for bank in (chip.header, chip.bank) for b in bank.blocks
                   for r in b.registers if b.base < VIRTUAL for f in r.fields)


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(data=st.data())
def test_any_stream_is_encoded_to_the_same_words(name: str, data: st.DataObject) -> None:
    chip = get_chip(name)
    words = data.draw(tasks(chip))
    fields = chip.decode(words)
    assert chip.encode(fields) == words
    assert chip.decode(chip.encode(fields)) == fields
    assert chip.task_size(words) == len(words)
    assert len(chip.addresses(fields)) == sum(count for _, count in fields.records)


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(data=st.data())
def test_the_text_of_any_stream_assembles_to_the_same_words(name: str, data: st.DataObject) -> None:
    chip = get_chip(name)
    words = data.draw(tasks(chip))
    head, *lines = read_lines("\n".join(task_lines(chip, 0, Task(words, 16))))
    assert parse_task(chip, len(words), head.first, lines) == words


@pytest.mark.parametrize("name", LATER)
@DRAWN
@given(words=st.lists(WORD, max_size=60))
def test_words_that_are_no_task_raise_program_errors_only(name: str, words: list[int]) -> None:
    chip = get_chip(name)
    for read in (chip.decode, chip.operation, chip.slots, chip.task_size):
        try:
            read(words)
        except ProgramError:
            continue


@pytest.mark.parametrize("name", LATER)
def test_changing_a_field_changes_its_bits_and_no_others(name: str) -> None:
    chip = get_chip(name)
    for block in chip.bank.blocks:
        if block.base >= VIRTUAL:
            continue
        for address, register_name, register in block.words():
            for field in register.fields:
                low, high = field.range
                value: Any = (next(reversed(field.values)) if field.kind == "enum" else
                              1.5 if field.kind.startswith("fp") else high - (high - field.minus) % field.align)
                full = f"{block.name}.{register_name}"
                before = chip.encode(TaskFields({}, {full: 0xFFFFFFFF & ~field.mask}, ((address, 1),)))
                after = chip.encode(TaskFields({f"{full}.{field.name}": value}, {full: 0xFFFFFFFF & ~field.mask},
                                               ((address, 1),)))
                assert before[:-1] == after[:-1]
                assert before[-1] ^ after[-1] == field.encode(value)
                assert chip.decode(after).values[f"{full}.{field.name}"] == value


@pytest.mark.parametrize("name", LATER)
def test_what_heads_of_runs_say_is_checked(name: str) -> None:
    chip = get_chip(name)
    address = next(a for a in chip.bank.by_address if a < VIRTUAL)
    with pytest.raises(ProgramError, match=r"Sparse\[0\]"):
        chip.encode(TaskFields({"Runs.Sparse[0].Following": 7}, {}, ((address, 2),)))
    with pytest.raises(ProgramError, match="no such run"):
        chip.encode(TaskFields({"Runs.Dense[3].Slot": 1}, {}, ((address, 2),)))
    with pytest.raises(ProgramError, match="no later run"):
        chip.encode(TaskFields({}, {"Runs.Superseded[10]": 1}, ((address, 2),)))
    with pytest.raises(FieldError, match="outside"):
        chip.encode(TaskFields({"Runs.Dense[0].Slot": 32}, {}, ((address, 2),)))


@pytest.mark.parametrize("name", LATER)
def test_framed_tasks_have_one_layout_and_no_links(name: str) -> None:
    with pytest.raises(ProgramError, match="at least one operation"):
        get_chip(name).emit([])
    with pytest.raises(UnsupportedError, match=name):
        get_chip(name).relayout([], "compat", {})
    with pytest.raises(ProgramError, match=name):
        get_chip(name).next_task((0,) * 10)


@pytest.mark.parametrize("name", recognised_generations())
def test_h11_and_h12_are_recognised_and_refused_by_name(name: str) -> None:
    chip = get_chip(name)
    assert chip.limits.cores == 8
    words = (0,) * 20
    for refused in (chip.next_task, chip.task_size, chip.decode, chip.operation, chip.slots):
        with pytest.raises(ProgramError, match=name):
            refused(words)
    with pytest.raises(UnsupportedError, match=name):
        chip.emit([])
