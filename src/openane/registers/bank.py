"""A bank: all blocks of a generation, addressed by flat names `Block.Register.Field`.

Decoding turns {address: word} into flat field values plus `rest` (per word, the undescribed bits); encoding
turns them back into the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from openane.record_classes import dataclass
from openane.registers.block import Block, Fields, Register
from openane.registers.field import Field, FieldError, Value

REMEMBERED = 1 << 15


class _Described(NamedTuple):
    """A register by its name, the bits that are described, and its fields: the name of each, its lowest bit, mask,
    shift and what is added, and the field itself where its bits may have no value."""

    name: str
    described: int
    parts: tuple[tuple[str, int, int, int, int, Field | None], ...]


@dataclass(frozen=True)
class Bank:
    """Blocks that do not overlap, with encode and decode over all of them."""

    blocks: tuple[Block, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: a bank has thousands of fields, and is what tables are remembered by."""
        return hash(self.blocks)

    @cached_property
    def block_names(self) -> frozenset[str]:
        """What the blocks are called."""
        return frozenset(block.name for block in self.blocks)

    @cached_property
    def by_address(self) -> dict[int, tuple[str, Register]]:
        """Absolute byte address to (`Block.Register`, register)."""
        return {address: (f"{block.name}.{name}", register)
                for block in self.blocks for address, name, register in block.words()}

    @cached_property
    def by_name(self) -> dict[str, tuple[int, Register]]:
        """`Block.Register` to (absolute byte address, register)."""
        return {name: (address, register) for address, (name, register) in self.by_address.items()}

    def locate(self, name: str) -> tuple[int, Register, Field]:
        """Address, register and field of `Block.Register.Field`; FieldError when unknown."""
        word, _, field_name = name.rpartition(".")
        if word not in self.by_name:
            raise FieldError(f"unknown register {word!r}; blocks are "
                             + ", ".join(b.name for b in self.blocks), field=name)
        address, register = self.by_name[word]
        return address, register, register.field(field_name)

    def decode(self, words: Mapping[int, int]) -> tuple[Fields, dict[str, int]]:
        """Fields and rest of {absolute address: word}. Words at unknown addresses go to rest as `@0x13844`."""
        fields: Fields = {}
        rest: dict[str, int] = {}
        decode = self._decode_word
        for address, word in words.items():
            values, name, left = decode(address, word)
            fields.update(values)
            if left:
                rest[name] = left
        return fields, rest

    @cached_property
    def _decode_word(self) -> Callable[[int, int], tuple[Fields, str, int]]:
        """Flat fields, name and rest of one word. Remembered: the tasks of a program repeat most of their words."""
        @lru_cache(maxsize=REMEMBERED)
        def decode(address: int, word: int) -> tuple[Fields, str, int]:
            known = self._registers.get(address) or self._described(address)
            if known is None:
                return {}, f"@0x{address:x}", word
            name, described, parts = known
            fields: Fields = {}
            left = word & ~described
            for key, low, mask, shift, minus, other in parts:
                value = ((word >> low & mask) << shift) + minus if other is None else other.decode(word)
                if value is None:
                    left |= word & mask << low
                else:
                    fields[key] = value
            return fields, name, left

        return decode

    @cached_property
    def _registers(self) -> dict[int, _Described]:
        """What was looked up, by address."""
        return {}

    def _described(self, address: int) -> _Described | None:
        entry = self.by_address.get(address)
        if entry is None:
            return None
        name, register = entry
        parts = tuple((f"{name}.{f.name}", f.low, (1 << f.width) - 1, f.shift, f.minus,
                       None if f.unconditional else f) for f in register.fields)
        found = self._registers[address] = _Described(name, register.described, parts)
        return found

    def encode(self, fields: Mapping[str, Value], rest: Mapping[str, int] | None = None,
               addresses: Iterable[int] = ()) -> dict[int, int]:
        """{absolute address: word}, starting from zero words at `addresses` (the words that will be written)."""
        words = dict.fromkeys(addresses, 0)
        for name, bits in (rest or {}).items():
            address = int(name[1:], 16) if name.startswith("@") else self._address(name)
            words[address] = words.get(address, 0) | bits
        for name, value in fields.items():  # floats are not remembered: 0.0 and -0.0 are equal keys
            address, where, bits = (self._encoded if isinstance(value, float) else self._encode_field)(name, value)
            if rest and where in rest:
                _, register, field = self.locate(name)
                bits = register.place(field.name, value, rest[where], where)
            words[address] = words.get(address, 0) | bits
        return words

    @cached_property
    def _encode_field(self) -> Callable[[str, Value], tuple[int, str, int]]:
        """Address, register and bits of one field. Remembered: the tasks of a program repeat most of their fields."""
        return lru_cache(maxsize=REMEMBERED, typed=True)(self._encoded)

    def _encoded(self, name: str, value: Value) -> tuple[int, str, int]:
        address, register, field = self.locate(name)
        where = name.rpartition(".")[0]
        return address, where, register.place(field.name, value, 0, where)

    def _address(self, name: str) -> int:
        if name not in self.by_name:
            raise FieldError(f"unknown register {name!r}", register=name)
        return self.by_name[name][0]
