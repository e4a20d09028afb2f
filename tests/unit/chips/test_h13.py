"""H13: tables, Apple's tasks word for word, and operations through encode and decode."""

import json
import math
import re
import struct
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13_operations import neural_operations, planar_operations, with_plain_second
from support.records import record_words

from openane.chips import get_chip
from openane.engine import (
    Access,
    DType,
    Elementwise,
    PassThrough,
    Space,
)
from openane.errors import ProgramError, UnsupportedError
from openane.registers import Evidence, check_bank

CHIP = get_chip("h13")


def anec_tasks(data):
    """Every task of an ANEC file, by following the chain."""
    size, base = struct.unpack_from("<I", data, 8)[0] // 4, 0x1000
    position = base
    while size:
        words = struct.unpack_from(f"<{size}I", data, position)
        yield words
        offset, size = CHIP.next_task(words)
        position = base + offset


def corpus_tasks(corpus):
    for path in sorted((corpus / "apple/oracles").glob("*.json")):
        for task in json.loads(path.read_text())["tasks"]:
            yield path.stem, record_words(task)
    for path in sorted((corpus / "apple").glob("*/*.anec")):
        for words in anec_tasks(path.read_bytes()):
            yield path.name, words


def test_tables_have_no_defect():
    for bank in (CHIP.header, CHIP.bank):
        assert check_bank(bank) == []
        assert all(block.doc for block in bank.blocks)


NEVER_SET = {"Common.Broadcast.SecondBroadcastD", "Common.GroupConvCfg.ElemMultMode", "KernelDMA.AuxDMAConfig.En",
             "TileDMASrc.SecondBaseAddr.Addr", "TileDMASrc.SecondDMAConfig.En"}
"""Fields proved by what Apple's programs compute with zeros in them, or by programs outside the corpus."""


def test_what_is_said_to_be_known_agrees_with_apples_programs(corpus):
    """Fields known by inference only hold zeros in every sample; those said to be proved hold something else in one."""
    known, used = {}, set()
    for _, words in corpus_tasks(corpus):
        for name, value in CHIP.decode(words).values.items():
            _, _, field = (CHIP.header if name.startswith("Header.") else CHIP.bank).locate(name)
            one = re.sub(r"\[\d+\]", "", name)
            known[one] = field.evidence
            if field.encode(value):
                used.add(one)
    assert len(known) == sum(len(register.fields) for bank in (CHIP.header, CHIP.bank) for block in bank.blocks
                             for register in block.registers)
    assert {name for name in used if known[name] is Evidence.INFERRED} == set()
    assert {name for name, how in known.items() if how is Evidence.PROVED} - used == NEVER_SET


def test_unknown_generations_are_refused_with_the_known_ones():
    with pytest.raises(UnsupportedError, match="h13"):
        get_chip("h99")


def test_apple_tasks_rebuild_word_for_word_from_fields_without_a_rest(corpus):
    tasks = list(corpus_tasks(corpus))
    assert len(tasks) >= 90
    for name, words in tasks:
        fields = CHIP.decode(words)
        assert CHIP.encode(fields) == tuple(words), name
        assert not fields.rest, (name, fields.rest)


def test_apple_operations_survive_our_own_encoding(corpus):
    programs = {}
    for name, words in corpus_tasks(corpus):
        programs.setdefault(name, []).append(CHIP.operation(words))
    for name, operations in programs.items():
        for layout in ("macos26", "compat"):
            emitted = CHIP.emit(operations, layout)
            assert [CHIP.operation(task.words) for task in emitted] == operations, name


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=200))
def test_random_words_raise_nothing_but_program_errors(words):
    for method in (CHIP.decode, CHIP.operation, CHIP.slots, CHIP.next_task):
        try:
            method(words)
        except ProgramError:
            continue


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_tasks_rebuild_word_for_word(data):
    shape = (1, 4, 1, 3, 5)
    words = list(CHIP.emit([PassThrough(source=surface(shape, 5), result=surface(shape, 4))])[0].words)
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(words) - 1))
        words[index] ^= 1 << data.draw(st.integers(0, 31))
    try:
        fields = CHIP.decode(words)
    except ProgramError:
        return
    assert CHIP.encode(fields) == tuple(words)
    try:
        CHIP.operation(words)
    except ProgramError:
        return


def surface(shape, slot, offset=0, dtype=DType.FLOAT16):
    """A dense surface with rows padded to 64 bytes."""
    _, c, d, h, w = shape
    row = -(-w * dtype.size // 64) * 64
    plane = row * h
    return Access(slot=slot, offset=offset, shape=shape, strides=(plane * c * d, plane, plane * c, row, dtype.size),
                  dtype=dtype)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(neural_operations() | planar_operations(), st.sampled_from(["macos26", "compat"]))
def test_decode_of_encode_is_the_operation(operation, layout):
    operation = with_plain_second(operation)
    task, = CHIP.emit([operation], layout)
    assert CHIP.operation(task.words) == operation
    assert not CHIP.decode(task.words).rest


def test_a_chain_hands_over_and_links():
    shape = (1, 2, 1, 64, 100)
    chain = Access(space=Space.CHAIN, shape=shape)
    operations = [PassThrough(source=surface(shape, 5), result=chain),
                  Elementwise(first=chain, result=surface(shape, 4), scale=0.5)]
    for layout, step, words in (("macos26", 0x200, 126), ("compat", 0x300, 157)):
        first, second = CHIP.emit(operations, layout)
        assert [CHIP.operation(t.words) for t in (first, second)] == operations
        assert CHIP.next_task(first.words) == (step, words)
        assert CHIP.next_task(second.words) == (0, 0)
        assert second.offset == step
    with pytest.raises(ProgramError, match="chained"):
        CHIP.emit(operations[1:])
    with pytest.raises(ProgramError, match="chained"):
        CHIP.emit(operations[:1])


def test_relayout_keeps_operations_and_renumbers_slots(corpus):
    for path in sorted((corpus / "apple/anec").glob("*.anec")):
        tasks = list(anec_tasks(path.read_bytes()))
        moved = CHIP.relayout(tasks, "macos26", {4: 9, 5: 4})
        back = CHIP.relayout([t.words for t in moved], "compat", {9: 4, 4: 5})
        assert [CHIP.operation(t.words) for t in back] == [CHIP.operation(words) for words in tasks]


@pytest.mark.parametrize(("change", "message"), [
    ({"offset": 32}, "multiple of 64"),
    ({"strides": (0, 128, 0, 96, 2)}, "multiple of 64"),
    ({"strides": (0, 640, 0, 64, 4)}, "contiguous along W"),
    ({"strides": (0, 0, 0, 64, 2)}, "cannot be broadcast along C"),
    ({"shape": (1, 4, 1, 10, 40000), "strides": (0, 1 << 20, 0, 1 << 17, 2)}, "outside 0..32767"),
])
def test_inexpressible_sources_are_refused_by_name(change, message):
    source = replace(surface((1, 4, 1, 10, 20), 5), **change)
    with pytest.raises(ProgramError, match=message) as error:
        CHIP.emit([PassThrough(source=source, result=surface(source.shape, 4))])
    assert error.value.task == 0


def test_rings_never_touch_resident_data():
    resident = Access(space=Space.L2, offset=0, shape=(1, 64, 1, 8, 64), strides=(0, 1024, 0, 128, 2))
    stream = surface(resident.shape, 5)
    tasks = CHIP.emit([PassThrough(source=stream, result=resident),
                       Elementwise(first=stream, second=resident, result=surface(resident.shape, 4))])
    fields = CHIP.decode(tasks[1].words).values
    low, high = resident.span
    for side in ("Source", "Result"):
        assert not low <= fields[f"L2.{side}Base.Addr"] < high


def test_negative_zero_and_infinity_scales_survive():
    shape = (1, 1, 1, 1, 8)
    for scale in (-0.0, math.inf, -math.inf):
        operation = Elementwise(first=surface(shape, 5), result=surface(shape, 4), scale=scale)
        back = CHIP.operation(CHIP.emit([operation])[0].words)
        assert math.copysign(1, back.scale) == math.copysign(1, scale)
        assert back.scale == scale


def test_a_task_that_leaves_registers_out_reads_them_as_zero():
    shape = (1, 4, 1, 3, 5)
    task, = CHIP.emit([Elementwise(first=surface(shape, 5), result=surface(shape, 4))])
    fields = CHIP.decode(task.words)
    planar = CHIP.bank.by_name["PE.Cfg"][0]
    records = tuple(run for run in fields.records if run[0] != planar)
    values = {name: value for name, value in fields.values.items() if not name.startswith("PE.")}
    with pytest.raises(ProgramError, match="FinalScale"):
        CHIP.operation(CHIP.encode(replace(fields, values=values, records=records)))
