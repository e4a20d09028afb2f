"""Fields and registers: exact round trips, refusals that name what is wrong, tables that must be refused."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.registers import Bank, Block, Field, FieldError, Register, check_bank

KINDS = st.sampled_from(["uint", "int"])


@st.composite
def integer_fields(draw):
    low = draw(st.integers(0, 31))
    width = draw(st.integers(1, 32 - low))
    return Field("F", low, width, draw(KINDS), minus=draw(st.integers(-2, 2)), shift=draw(st.integers(0, 6)))


@given(integer_fields(), st.data())
def test_every_value_in_range_round_trips_and_stays_in_its_bits(field, data):
    low, high = field.range
    unit = 1 << field.shift
    value = low + unit * data.draw(st.integers(0, (high - low) // unit))
    word = field.encode(value)
    assert word & ~field.mask == 0
    assert field.decode(word) == value
    assert field.decode(word | (0xFFFFFFFF & ~field.mask)) == value


@given(integer_fields())
def test_the_neighbouring_values_out_of_range_are_refused(field):
    low, high = field.range
    for value in (low - (1 << field.shift), high + (1 << field.shift)):
        with pytest.raises(FieldError, match=r"outside .*\d+ bits at"):
            field.encode(value, "Block.Register")


@given(integer_fields(), st.sampled_from([1, 4, 64]), st.data())
def test_an_encoder_says_what_encode_says(field, align, data):
    field = replace(field, align=align)
    low, high = field.range
    value = data.draw(st.integers(low - 2 ** field.shift, high + 2 ** field.shift) | st.sampled_from([low, 1.0, True]))
    assert said(field.encoder("Block.Register"), value) == said(lambda v: field.encode(v, "Block.Register"), value)


def said(encode, value):
    """The bits, or the message of the refusal."""
    try:
        return encode(value)
    except FieldError as error:
        return str(error)


def test_overflow_names_block_register_field_value_and_range():
    with pytest.raises(FieldError) as error:
        Field("Kw", 0, 5).encode(32, "Common.ConvCfg")
    assert str(error.value) == "Common.ConvCfg.Kw: 32 is outside 0..31 (5 bits at 0)"


@pytest.mark.parametrize("field", [Field("S", 6, 26, shift=6), Field("S", 0, 32, align=64)])
def test_misaligned_values_are_refused(field):
    assert field.decode(field.encode(0x1C0)) == 0x1C0
    with pytest.raises(FieldError, match="multiple of 64"):
        field.encode(0x1C1)


@given(st.integers(0, 0xFFFF))
def test_every_fp16_pattern_survives_a_register(bits):
    register = Register("R", 0, (Field("Low", 0, 16, "fp16"), Field("High", 16, 16, "fp16")))
    word = bits | 0x3C00 << 16
    values, rest = register.decode(word)
    assert register.encode({k: v for k, v in values.items() if not rest & register.field(k).mask}, rest) == word
    if "Low" in values and not math.isnan(values["Low"]):
        assert rest == 0


def test_a_number_fp16_cannot_hold_is_refused():
    field = Field("Scale", 0, 16, "fp16")
    assert field.encode(math.inf) == 0x7C00
    for value in (0.1, 65520.0, 1e-9, "one"):
        with pytest.raises(FieldError):
            field.encode(value)


def test_enums_round_trip_and_unnamed_numbers_stay_in_rest():
    register = Register("R", 0, (Field("Mode", 4, 2, "enum", values={"sum": 0, "max": 2}),))
    assert register.decode(0x20) == ({"Mode": "max"}, 0)
    assert register.decode(0x10) == ({}, 0x10)
    with pytest.raises(FieldError, match="must be one of sum, max, not 'min'"):
        register.encode({"Mode": "min"})


@given(st.integers(0, 0xFFFFFFFF))
def test_decode_then_encode_from_zero_gives_the_same_word(word):
    register = Register("R", 0, (Field("A", 1, 3), Field("B", 8, 4, "enum", values={"x": 3}), Field("C", 16, 9, "int")))
    values, rest = register.decode(word)
    assert register.encode(values, rest) == word


def test_unknown_names_list_the_known_ones():
    bank = Bank((Block("B", 0, (Register("R", 0, (Field("A", 0, 1),), count=2),)),))
    with pytest.raises(FieldError, match="unknown field 'Z'; R has A"):
        bank.encode({"B.R[0].Z": 1})
    with pytest.raises(FieldError, match=r"unknown register 'B.R\[2\]'"):
        bank.encode({"B.R[2].A": 1})


def test_rest_may_not_contradict_a_described_value():
    bank = Bank((Block("B", 0, (Register("R", 0, (Field("A", 0, 4),)),)),))
    assert bank.encode({"B.R.A": 5}, {"B.R": 0x100}) == {0: 0x105}
    with pytest.raises(FieldError, match="overlaps"):
        bank.encode({"B.R.A": 5}, {"B.R": 0x2})


def _bank(*registers):
    return Bank((Block("B", 0, registers),))


REFUSED = {
    "overlap": (_bank(Register("R", 0, (Field("A", 0, 4), Field("B", 3, 2)))), "overlaps"),
    "too wide": (_bank(Register("R", 0, (Field("A", 30, 4),))), "do not fit"),
    "no width": (_bank(Register("R", 0, (Field("A", 3, 0),))), "do not fit"),
    "negative": (_bank(Register("R", 0, (Field("A", -1, 2),))), "do not fit"),
    "field twice": (_bank(Register("R", 0, (Field("A", 0, 1), Field("A", 1, 1)))), "twice"),
    "register twice": (_bank(Register("R", 0), Register("R", 4)), "twice"),
    "block twice": (Bank((Block("B", 0, ()), Block("B", 64, ()))), "twice"),
    "address shared": (_bank(Register("R", 0), Register("S", 0)), "share address"),
    "array over neighbour": (_bank(Register("R", 0, count=3), Register("S", 8)), "share address"),
    "odd address": (_bank(Register("R", 2)), "not a word address"),
    "empty array": (_bank(Register("R", 0, count=0)), "array of 0"),
    "unknown kind": (_bank(Register("R", 0, (Field("A", 0, 4, "bcd"),))), "kind 'bcd'"),
    "fp16 width": (_bank(Register("R", 0, (Field("A", 0, 15, "fp16"),))), "needs 16 bits"),
    "fp32 width": (_bank(Register("R", 0, (Field("A", 0, 16, "fp32"),))), "needs 32 bits"),
    "empty enum": (_bank(Register("R", 0, (Field("A", 0, 2, "enum"),))), "without names"),
    "enum too big": (_bank(Register("R", 0, (Field("A", 0, 1, "enum", values={"x": 2}),))), "does not fit 1 bits"),
    "enum twice": (_bank(Register("R", 0, (Field("A", 0, 2, "enum", values={"x": 1, "y": 1}),))), "two names"),
    "default": (_bank(Register("R", 0, (Field("A", 0, 2, default=4),))), "cannot be encoded"),
    "default unaligned": (_bank(Register("R", 0, (Field("A", 0, 8, shift=4, default=3),))), "cannot be encoded"),
    "align": (_bank(Register("R", 0, (Field("A", 0, 8, align=0),))), "must be at least 1"),
    "name": (_bank(Register("R", 0, (Field("A B", 0, 8),))), "identifier"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_defective_tables_are_refused(name):
    bank, reason = REFUSED[name]
    assert any(reason in defect for defect in check_bank(bank)), check_bank(bank)


def test_a_later_generation_states_differences():
    parent = Block("B", 0x100, (Register("R", 0, (Field("A", 0, 4),)), Register("S", 4)))
    child = parent.patched(Register("R", 0, (Field("A", 0, 5),)), Register("T", 8))
    assert [r.name for r in child.registers] == ["R", "S", "T"]
    assert child.register("R").field("A").width == 5
    assert parent.register("R").field("A").width == 4
