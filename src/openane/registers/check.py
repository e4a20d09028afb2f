"""Checks every register table must pass: what a table may not say.

`check_bank` returns one sentence per defect; an empty list is a good table.
"""

from __future__ import annotations

from collections.abc import Iterator

from openane.registers.bank import Bank
from openane.registers.block import Block, Register
from openane.registers.field import Field, FieldError

KINDS = ("uint", "int", "enum", "fp16", "fp32")


def check_bank(bank: Bank) -> list[str]:
    """Every defect of the tables of `bank`: overlaps, widths, duplicates, values that do not fit."""
    defects: list[str] = []
    names = [b.name for b in bank.blocks]
    defects += [f"block {n} is declared twice" for n in sorted({n for n in names if names.count(n) > 1})]
    seen: dict[int, str] = {}
    for block in bank.blocks:
        defects += check_block(block)
        for address, name, _ in block.words():
            label = f"{block.name}.{name}"
            if address in seen:
                defects.append(f"{label} and {seen[address]} share address 0x{address:x}")
            seen[address] = label
    return defects


def check_block(block: Block) -> list[str]:
    """Defects of one block (addresses are compared by `check_bank`)."""
    names = [r.name for r in block.registers]
    defects = [f"{block.name}.{n} is declared twice" for n in sorted({n for n in names if names.count(n) > 1})]
    for register in block.registers:
        defects += check_register(register, f"{block.name}.{register.name}")
    return defects


def check_register(register: Register, name: str) -> list[str]:
    """Defects of one register."""
    defects = list(_shape(register, name))
    used = 0
    seen: set[str] = set()
    for field in register.fields:
        label = f"{name}.{field.name}"
        if field.name in seen:
            defects.append(f"{label} is declared twice")
        seen.add(field.name)
        wrong = list(_field(field, label))
        defects += wrong
        if wrong:
            continue
        if used & field.mask:
            defects.append(f"{label} {field.bits} overlaps another field")
        used |= field.mask
    return defects


def _shape(register: Register, name: str) -> Iterator[str]:
    if register.offset < 0 or register.offset % 4:
        yield f"{name}: offset {register.offset:#x} is not a word address"
    if register.count < 1 or register.step < 4 or register.step % 4:
        yield f"{name}: array of {register.count} words {register.step} bytes apart"


def _field(field: Field, label: str) -> Iterator[str]:
    if not field.name.isidentifier():
        yield f"{label}: a field name must be an identifier"
    if field.kind not in KINDS:
        yield f"{label}: kind {field.kind!r} is not one of {', '.join(KINDS)}"
        return
    if field.width < 1 or field.low < 0 or field.low + field.width > 32:
        yield f"{label}: {field.width} bits at {field.low} do not fit a 32-bit word"
        return
    if field.kind in ("fp16", "fp32") and field.width != int(field.kind[2:]):
        yield f"{label}: {field.kind} needs {field.kind[2:]} bits, not {field.width}"
        return
    if field.align < 1 or field.shift < 0:
        yield f"{label}: align {field.align} and shift {field.shift} must be at least 1 and 0"
        return
    if field.kind == "enum":
        yield from _enum(field, label)
    if field.default is not None:
        try:
            field.encode(field.default)
        except FieldError as error:
            yield f"{label}: default {field.default!r} cannot be encoded: {error}"


def _enum(field: Field, label: str) -> Iterator[str]:
    if not field.values:
        yield f"{label}: an enum without names"
    numbers = list(field.values.values())
    if len(set(numbers)) != len(numbers):
        yield f"{label}: two names for one number"
    for name, number in field.values.items():
        if not 0 <= number < 1 << field.width:
            yield f"{label}: {name} = {number} does not fit {field.width} bits"
