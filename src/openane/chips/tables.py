"""Short forms for register tables: fields and registers of the kinds the engine has, with how each is known.

The tables of a generation are data; everything that turns them into bits is in `registers`.
"""

from __future__ import annotations

from dataclasses import replace

from openane.registers import Block, Evidence, Field, Register, Value

P, S, U = Evidence.PROVED, Evidence.SEEN, Evidence.INFERRED


def uint(name: str, high: int, low: int, evidence: Evidence = S, doc: str = "", *, minus: int = 0, shift: int = 0,
         default: Value | None = None) -> Field:
    """An unsigned number in bits high..low."""
    return Field(name, low, high - low + 1, minus=minus, shift=shift, default=default, evidence=evidence, doc=doc)


def flag(name: str, bit: int, evidence: Evidence = S, doc: str = "", *, default: Value | None = None) -> Field:
    """One bit."""
    return Field(name, bit, 1, default=default, evidence=evidence, doc=doc)


def enum(name: str, high: int, low: int, names: str, evidence: Evidence = S, doc: str = "",
         default: str | None = None) -> Field:
    """An enum from "zero one . three": names in order of their numbers, a dot where a number has no meaning."""
    values = {n: i for i, n in enumerate(names.split()) if n != "."}
    return Field(name, low, high - low + 1, "enum", values=values, default=default, evidence=evidence, doc=doc)


def half(name: str, low: int, evidence: Evidence = P, doc: str = "", default: float = 0.0) -> Field:
    """A half-precision number in the 16 bits from `low` on."""
    return Field(name, low, 16, "fp16", default=default, evidence=evidence, doc=doc)


def bytes64(name: str, offset: int, field: str = "Stride", doc: str = "", evidence: Evidence = P) -> Register:
    """A memory address or stride: bits 31:6, multiples of 64 bytes."""
    return Register(name, offset, (uint(field, 31, 6, evidence, shift=6),), evidence=evidence, doc=doc)


def bytes16(name: str, offset: int, field: str = "Stride", doc: str = "", evidence: Evidence = P) -> Register:
    """An L2 address or stride: bits 20:4, multiples of 16 bytes."""
    return Register(name, offset, (uint(field, 20, 4, evidence, shift=4),), evidence=evidence, doc=doc)


def slot(name: str, low: int, evidence: Evidence = P) -> tuple[Field, Field]:
    """A base-address slot and its enable bit."""
    return uint(name, low + 4, low, evidence), flag(f"{name}En", low + 5, evidence)


def single(name: str, evidence: Evidence = S, doc: str = "", default: float = 0.0) -> Field:
    """A single-precision number that fills the word."""
    return Field(name, 0, 32, "fp32", default=default, evidence=evidence, doc=doc)


def word(name: str, offset: int, *fields: Field, doc: str = "", evidence: Evidence | None = None) -> Register:
    """A register; without its own evidence it is known as its first field is."""
    known = evidence or (fields[0].evidence if fields else U)
    return Register(name, offset, fields, evidence=known, doc=doc)


def rearranged(block: Block, base: int, doc: str = "", **offsets: int) -> Block:
    """A block at another base, registers at other offsets by name: how a later generation rearranges its parent's."""
    registers = [replace(r, offset=offsets.get(r.name, r.offset)) for r in block.registers]
    return replace(block, base=base, registers=tuple(sorted(registers, key=lambda r: r.offset)), doc=doc or block.doc)


def without(block: Block, *names: str) -> Block:
    """A block less some registers."""
    return replace(block, registers=tuple(r for r in block.registers if r.name not in names))


_RANK = {U: 0, S: 1, P: 2}


def at_most(block: Block, evidence: Evidence) -> Block:
    """A block whose registers and fields are known in this way at best: what carries over to a later generation."""
    def weaker(other: Evidence) -> Evidence:
        return min(other, evidence, key=_RANK.__getitem__)

    def claim(register: Register) -> Register:
        fields = tuple(replace(f, evidence=weaker(f.evidence)) for f in register.fields)
        return replace(register, fields=fields, evidence=weaker(register.evidence))

    return replace(block, registers=tuple(map(claim, block.registers)))
