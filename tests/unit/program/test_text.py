"""The text of tasks: nothing is lost, each field changes its own bits, and mistakes are named where they are."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import layout_of

from openane.chips import TaskFields, get_chip
from openane.errors import UnsupportedError
from openane.formats import load_program
from openane.program import Buffer, Program, Role, Task
from openane.program.listing import TextError, parse_task, quoted, read_lines, task_lines, unquoted
from openane.program.text import disassemble
from openane.registers import Bank, Field, FieldError, Value

H13 = get_chip("h13")
RUNS = H13.forms["full"]  # type: ignore[attr-defined]
HEADER = sorted(H13.header.by_address)
ELEMENT = re.compile(r"    (\w+)\[(\d+)\.\.(\d+)\](\.\w+\s.*)")


def parse(lines: list[str], size: int) -> tuple[int, ...]:
    head, *members = read_lines("\n".join(lines))
    return parse_task(H13, size, head.first, members)


def zeroed(header: int = len(HEADER)) -> tuple[int, ...]:
    """A task whose every register word is zero, with an eleventh header word."""
    extended = {"Header.Dependency.DTID": 0, "Header.Control.TDE": 1} if header == len(HEADER) else {}
    return H13.encode(TaskFields(extended, {}, RUNS))


def shown(words: tuple[int, ...]) -> list[str]:
    """The task's lines, lines that stand for several elements of an array split up."""
    lines = []
    for line in task_lines(H13, 0, Task(words)):
        match = ELEMENT.match(line)
        if match:
            lines += [f"    {match[1]}[{i}]{match[4]}" for i in range(int(match[2]), int(match[3]) + 1)]
        else:
            lines.append(line)
    return lines


def edited(lines: list[str], name: str, value: str) -> list[str]:
    """The lines with one field set."""
    block, _, within = name.partition(".")
    kept, current, place = [], "", None
    for line in lines:
        if line.startswith("  ") and line[2] not in " ;":
            current = line.split(";")[0].strip()
        if current == block and line.split()[0] == within:
            continue
        kept.append(line)
        if current == block and place is None:
            place = len(kept)
    if place is None:
        return [*kept, f"  {block}", f"    {within} {value}"]
    return [*kept[:place], f"    {within} {value}", *kept[place:]]


def samples(field: Field, draw: random.Random) -> Iterator[Value]:
    if field.kind == "enum":
        yield from field.values
    elif field.kind == "fp16":
        yield from (0.0, -0.0, 1.0, -65504.0, 2.0 ** -24, float("inf"))
    elif field.kind == "fp32":
        yield from (0.0, -0.0, 1.0, 0.1000000014901161193847656, -3.4028234663852886e38, 2.0 ** -149)
    else:
        low, high = field.range
        step = max(1 << field.shift, field.align)
        yield from {low, high - (high - field.minus) % step, low + (high - low) // 2 // step * step,
                    low + draw.randrange((high - low) // step + 1) * step}


def all_fields() -> list[tuple[int, str, Field]]:
    """Every field of a full task: index of its word in the descriptor, name, field."""
    found = []
    position = len(HEADER)
    places = {address: i for i, address in enumerate(HEADER)}
    rows: list[tuple[Bank, dict[int, int]]] = [(H13.header, places)]
    body = {}
    for base, count in RUNS:
        body |= {base + 4 * i: position + 1 + i for i in range(count)}
        position += 1 + count
    rows.append((H13.bank, body))
    for bank, where in rows:
        for address, (name, register) in bank.by_address.items():
            found += [(where[address], f"{name}.{f.name}", f) for f in register.fields if address in where]
    return found


def test_every_field_changes_its_bits_and_no_others() -> None:
    draw = random.Random(5)
    words = zeroed()
    lines = shown(words)
    assert parse(lines, len(words)) == words
    fields = all_fields()
    assert len(fields) > 300
    for index, name, field in fields:
        for value in samples(field, draw):
            found = parse(edited(lines, name, str(value)), len(words))
            changed = [i for i, (a, b) in enumerate(zip(words, found, strict=True)) if a != b]
            assert set(changed) <= {index}, f"{name} = {value} changes other words"
            assert found[index] & ~field.mask == words[index] & ~field.mask, f"{name} = {value}"
            assert found[index] & field.mask == field.encode(value), f"{name} = {value}"


@given(st.data())
def test_random_words_are_printed_without_loss(data: st.DataObject) -> None:
    """Random bits everywhere, described or not: fields, rest and values without a name come back."""
    words = list(zeroed(data.draw(st.sampled_from((10, 11)))))
    header = len(words) - len(zeroed(10)) + 10
    heads = {header, *(header + p for p in _ends())}
    for i in range(header, len(words)):
        if i not in heads:
            words[i] = data.draw(st.integers(0, 0xFFFFFFFF)) if data.draw(st.booleans()) else words[i]
    task = tuple(words)
    assert parse(list(task_lines(H13, 0, Task(task))), len(task)) == task


def _ends() -> Iterator[int]:
    position = 0
    for _, count in RUNS:
        position += 1 + count
        yield position


def test_unusual_runs_are_stated() -> None:
    runs = ((0x4800, 3), (0x13844, 2))
    words = H13.encode(TaskFields({"L2.SourceBase.Addr": 0x40}, {"@0x13848": 7}, runs))
    lines = list(task_lines(H13, 0, Task(words)))
    assert lines[-1] == "  records  0x4800 x3  0x13844 x2"
    assert parse(lines, len(words)) == words


def test_apple_tasks_are_printed_without_loss(corpus: Path) -> None:
    files = [*sorted(corpus.glob("apple/hwx/*.hwx")), *sorted(corpus.glob("apple/anec/*.anec"))]
    assert files
    for file in files:
        for index, task in enumerate(load_program(file).tasks):
            lines = list(task_lines(H13, index, task))
            assert not any(line.startswith(("  words", "  records")) for line in lines)
            assert parse(lines, len(task.words)) == task.words, f"{file.name} task {index}"


MISTAKES = [
    ("  Comon\n    InDim.W 4", 2, 3, "did you mean 'Common'"),
    ("  Common\n    InDmi.W 4", 3, 5, "did you mean 'InDim'"),
    ("  Common\n    InDim.X 4", 3, 11, "one of W, H"),
    ("  Common\n    InDim.W 4 5", 3, 15, "one token too many"),
    ("  Common\n    InDim.W four", 3, 13, "is a number"),
    ("  Common\n    InDim.W 99999", 3, 13, "0..0x7fff"),
    ("  Common\n    InDim.W 4\n    InDim.W 4", 4, 5, "stated twice"),
    ("    InDim.W 4", 2, 5, "before the name of its block"),
    ("  Common\n    Cfg.TaskType binry", 3, 18, "did you mean 'binary'"),
    ("  TileDMADst\n    RowStride.Stride 0x41", 3, 22, "multiple of 64"),
    ("  KernelDMA\n    CoeffBaseAddr[3..16].Addr 0x40", 3, 5, "0..15"),
    ("  PE\n    BiasScale.Bias 1/3", 3, 20, "is a real number"),
    ("  PE\n    BiasScale.Bias 0.1", 3, 20, "not exactly representable"),
    ("  PE\n    rest Cfg 0x3", 2, 0, "overlaps"),
    ("  undescribed\n    @0x4800 0x3", 3, 5, "register L2.L2Cfg"),
    ("  undescribed\n    @0x13900 0x3", 3, 5, "not part of this task"),
    ("  words 0000000g", 2, 9, "eight hexadecimal digits"),
    ("  words 00000000", 1, 0, "states 158 words, 1 follow"),
    ("  records 0x4800 x9999", 2, 3, "the runs take"),
    ("  records 0x4800 18", 2, 18, "x and a number"),
    ("  records 0x4800 x18", 2, 3, "leave 139 for the header"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), MISTAKES)
def test_mistakes_are_named_where_they_are(text: str, line: int, column: int, message: str) -> None:
    if "overlaps" in message:
        text = "  PE\n    Cfg.PoolMode average\n    rest Cfg 0x3"
        line, column = 3, 5
    with pytest.raises(TextError, match=re.escape(message)) as caught:
        parse(["task 0  at 0x0, 158 words", *text.split("\n")], 158)
    assert caught.value.line == line
    assert column in (0, caught.value.column)


def test_words_that_are_no_descriptor_are_shown_raw() -> None:
    lines = list(disassemble(Program("h13", (Task((0xDEADBEEF,) * 3, 0x40),))))
    start = lines.index("task 0  at 0x40, 3 words")
    assert "not a task descriptor" in lines[start + 1]
    assert parse(lines[start:], 3) == (0xDEADBEEF,) * 3


def test_the_head_names_buffers_and_origin() -> None:
    buffers = (Buffer("x", 5, Role.INPUT, 128, layout_of((1, 2, 1, 1, 9))), Buffer("y", 4, Role.OUTPUT, 64))
    text = "\n".join(disassemble(Program("h13", (), b"12", buffers, "net", {"compiler": "nobody"})))
    assert text.index("output") < text.index("input")  # by slot
    for part in ("program net", "nobody", "2 bytes", "slot 5", "fp16 1x2x1x1x9", "0x80/0x40/0x80/0x40/0x2"):
        assert part in text


def test_an_undescribed_chip_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="h13"):
        list(disassemble(Program("h99", ())))


@given(st.binary())
def test_quoted_text_holds_any_bytes(data: bytes) -> None:
    line = next(read_lines(f"string {quoted(data)} ; end"))
    assert unquoted(line.tokens[1], "text") == data
    assert len(line.tokens) == 2


def test_fields_and_samples_agree_with_the_tables() -> None:
    """The exhaustive test above samples values that fit: otherwise it would prove nothing."""
    draw = random.Random(1)
    for value, field in chain.from_iterable(((v, f) for v in samples(f, draw)) for _, _, f in all_fields()):
        try:
            field.encode(value)
        except FieldError as error:
            raise AssertionError(f"{field.name}: {error}") from None
