"""The text form of a program says everything: the words of every task can be rebuilt from it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from openane.chips import Chip, TaskFields, get_chip
from openane.errors import UnsupportedError
from openane.formats import load_program
from openane.program import Buffer, Layout, Program, Role, Task
from openane.program.text import disassemble
from openane.registers import Bank, Value

H13 = get_chip("h13")
ELEMENT = re.compile(r"(\w+)\[(\d+)(?:\.\.(\d+))?\](.*)")


def parse(chip: Chip, lines: list[str]) -> TaskFields:
    """The task that lines print: comments dropped, defaults filled in for every word it writes."""
    values: dict[str, Value] = {}
    rest: dict[str, int] = {}
    records: tuple[tuple[int, int], ...] = ()
    block = header = ""
    for line in (text.partition(";")[0].rstrip() for text in lines[1:]):
        words = line.split()
        if line.startswith("    rest"):
            name = words[1] if len(words) == 3 else ""
            rest[f"{block}.{name}" if name else block] = int(words[-1], 0)
        elif line.startswith("    "):
            for name in expand(words[0]):
                values[f"{block}.{name}"] = number(words[1])
        elif line.startswith("  records"):
            pairs = (pair.split(" x") for pair in line.removeprefix("  records ").split(", "))
            (_, header), *runs = pairs
            records = tuple((int(address, 0), int(count)) for address, count in runs)
        elif words:
            block = words[0]
    written = {address + 4 * i for address, count in records for i in range(count)}
    return TaskFields(defaults(chip.header, set(sorted(chip.header.by_address)[:int(header)]), rest)
                      | defaults(chip.bank, written, rest) | values, rest, records)


def defaults(bank: Bank, addresses: set[int], rest: dict[str, int]) -> dict[str, Value]:
    return {f"{name}.{field.name}": field.default_value() for address, (name, register) in bank.by_address.items()
            if address in addresses for field in register.fields
            if not rest.get(name, 0) & field.mask and (field.default is not None or field.decode(0) is not None)}


def expand(name: str) -> list[str]:
    match = ELEMENT.fullmatch(name)
    if match is None:
        return [name]
    return [f"{match[1]}[{i}]{match[4]}" for i in range(int(match[2]), int(match[3] or match[2]) + 1)]


def number(text: str) -> Value:
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def tasks_of(lines: list[str]) -> list[list[str]]:
    starts = [i for i, line in enumerate(lines) if line.startswith("task ")] + [len(lines)]
    return [lines[a:b] for a, b in pairwise(starts)]


def test_apple_programs_are_printed_without_loss(corpus: Path) -> None:
    files = [*sorted(corpus.glob("apple/hwx/*.hwx")), *sorted(corpus.glob("apple/anec/*.anec"))]
    assert files
    for file in files:
        program = load_program(file)
        lines = list(disassemble(program))
        printed = tasks_of(lines)
        assert len(printed) == len(program.tasks)
        for task, text in zip(program.tasks, printed, strict=True):
            assert H13.encode(parse(H13, text)) == task.words, f"{file.name} at {task.offset:#x}"


def test_words_that_are_no_descriptor_are_shown_raw() -> None:
    lines = list(disassemble(Program("h13", (Task((0xDEADBEEF,) * 3, 0x40),))))
    assert "task 0  at 0x40, 3 words" in lines
    assert any("not a task descriptor" in line for line in lines)
    assert lines[-1].split() == ["0x0000", *["deadbeef"] * 3]


def test_the_head_names_buffers_and_origin() -> None:
    buffers = (Buffer("x", 5, Role.INPUT, 128, Layout.packed((1, 2, 1, 1, 9))), Buffer("y", 4, Role.OUTPUT, 64))
    text = "\n".join(disassemble(Program("h13", (), b"12", buffers, "net", {"compiler": "nobody"})))
    assert text.index("output") < text.index("input")  # by slot
    for part in ("program net", "nobody", "2 bytes", "slot 5", "fp16 1x2x1x1x9", "0x80/0x40/0x80/0x40/0x2"):
        assert part in text


def test_an_undescribed_chip_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="h13"):
        list(disassemble(Program("h99", ())))
