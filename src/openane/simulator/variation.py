"""Engines that are not as believed: how one differs, as a line of text, and what that does to tasks and numbers.

A line is a list of terms between semicolons. The first word of a term says what differs:

    take FIELD=VALUE     the engine takes a register field for VALUE, whatever a task holds
    reset NAME.SETTING   it ignores a setting of operations (`reset Pooling.padding`), as if it were at its default
    swap NAME.SETTING    it takes the parts of a setting in the opposite order
    set NAME.SETTING=X   it takes a setting for the number X
    hang NAME            it does not end a task of this operation
    read RULE            numbers are changed as they are read, by a rule of `READS`
    store RULE           numbers are changed as they are stored, by a rule of `STORES`
    sums RULE            reductions add by a rule of `SUMS`
    direct, winograd     3x3 convolutions are computed directly, or in the Winograd form
    float32              the multiply-accumulate array adds in float32
    race                 a task begins before the one before it has written its result
    rate NAME*X          a clock or bandwidth (`openane.timing.Rates`), or `dispatch`, is X times as large
    refuse NAME>X        programs with more than X of `ports`, `constants`, `tasks` or `text` are refused
    noise X              times scatter by a factor of e^X, one standard deviation
    fail X               a share X of the runs fails, without a consequence for others
    seed X               of noise and failures

What a variation says of words holds where words are read; everything else holds of operations, and is the same for
every generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace

import numpy as np

from openane.chips import Chip
from openane.engine import Operation
from openane.engine.changing import with_fields
from openane.errors import SimulationError
from openane.record_classes import dataclass
from openane.registers import Register, Value
from openane.simulator.arithmetic.candidates import short_row_sums

Numbers = np.ndarray


def _flushed(bits: np.ndarray) -> np.ndarray:
    """Subnormal numbers become zero."""
    return np.where(bits & np.uint16(0x7C00), bits, np.uint16(0)).astype(np.uint16)


def _saturated(bits: np.ndarray) -> np.ndarray:
    """Infinite numbers become the largest finite ones."""
    return np.where(bits & np.uint16(0x7FFF) == 0x7C00, bits - np.uint16(1), bits).astype(np.uint16)


def _nan_is_zero(bits: np.ndarray) -> np.ndarray:
    """What is no number becomes zero."""
    return np.where((bits & np.uint16(0x7FFF)) > 0x7C00, np.uint16(0), bits).astype(np.uint16)


def _early(bits: np.ndarray) -> np.ndarray:
    """Magnitudes of 2^14 and more are infinite."""
    return np.where((bits & np.uint16(0x7FFF)) >= 0x7400, (bits & np.uint16(0x8000)) | np.uint16(0x7C00),
                    bits).astype(np.uint16)


def _away(bits: np.ndarray) -> np.ndarray:
    """Every number that has one takes the next larger magnitude."""
    return np.where((bits & np.uint16(0x7FFF)) < 0x7BFF, bits + np.uint16(1), bits).astype(np.uint16)


def _signed_zero(bits: np.ndarray) -> np.ndarray:
    """Negative zero is read as the number next to it, which keeps the sign."""
    return np.where(bits == 0x8000, np.uint16(0x8001), bits).astype(np.uint16)


def _cropped(bits: np.ndarray) -> np.ndarray:
    """Magnitudes of 4095 and more are infinite, as behind a gain of 16."""
    return np.where((bits & np.uint16(0x7FFF)) >= 0x6BFF, (bits & np.uint16(0x8000)) | np.uint16(0x7C00),
                    bits).astype(np.uint16)


def _zero(bits: np.ndarray) -> np.ndarray:
    """Nothing arrives."""
    return np.zeros_like(bits)


Rule = Callable[[np.ndarray], np.ndarray]
READS: dict[str, Rule] = {"flush-subnormals": _flushed, "nan-as-zero": _nan_is_zero, "signed-zero": _signed_zero,
                          "crop-gain": _cropped}
"""fp16 words to what the engine takes them for."""
STORES: dict[str, Rule] = {"flush-subnormals": _flushed, "saturate": _saturated, "early-infinity": _early,
                           "next": _away, "nothing": _zero}
"""fp16 words of a result to those that are stored."""


def _rows(values: Numbers) -> np.ndarray:
    return values.reshape(*values.shape[:2], -1)


def _float32(values: Numbers) -> Numbers:
    return np.add.accumulate(_rows(values).astype(np.float32), axis=-1)[..., -1].astype(np.float64)


def _half(values: Numbers) -> Numbers:
    return np.add.accumulate(_rows(values).astype(np.float16), axis=-1)[..., -1].astype(np.float64)


def _tiles(values: Numbers) -> Numbers:
    return np.asarray(short_row_sums(np.ascontiguousarray(_rows(values).astype(np.float16))), np.float64)


def _tree(values: Numbers) -> Numbers:
    rows = _rows(values).astype(np.float16)
    while rows.shape[-1] > 1:
        short = -rows.shape[-1] % 4
        rows = np.pad(rows, [(0, 0), (0, 0), (0, short)])
        parts = rows.reshape(*rows.shape[:2], -1, 4)
        rows = ((parts[..., 0] + parts[..., 1]) + (parts[..., 2] + parts[..., 3])).astype(np.float16)
    return rows[..., 0].astype(np.float64)


SUMS: dict[str, Callable[[Numbers], Numbers]] = {
    "float32": _float32, "half": _half, "tiles-of-four": _tiles, "radix-four": _tree}
"""float32 blocks [N, C, ...] to their sums [N, C] (float64): what reductions may add by."""
REFUSABLE = ("ports", "constants", "tasks", "text")
RATES = ("clock", "l2_clock", "kernel", "tile", "dispatch")

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Variation:
    """How an engine differs, see the module. The default is the engine as it is believed to be."""

    take: tuple[Pair, ...] = ()
    change: tuple[tuple[str, str, str], ...] = ()
    hang: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    store: tuple[str, ...] = ()
    sums: str = ""
    winograd: bool | None = None
    float32: bool = False
    race: bool = False
    rates: tuple[tuple[str, float], ...] = ()
    refuse: tuple[tuple[str, int], ...] = ()
    noise: float = 0.0
    fail: float = 0.0
    seed: int = 0

    def fields(self, words: Sequence[int], chip: Chip) -> tuple[int, ...]:
        """The words of a task as the engine takes them. A field of a register that the task does not write is written
        by a run of its own behind the others; one that the generation does not have is left alone."""
        if not self.take:
            return tuple(words)
        known = chip.decode(words)
        values: dict[str, Value] = dict(known.values)
        records = list(known.records)
        for name, text in self.take:
            if name in values:
                values[name] = _value(text, values[name])
            elif name in (unwritten := _unwritten(chip)):
                address, register, field = unwritten[name]
                records.append((address, 1))
                values |= {f"{register}.{each.name}": each.default_value() for each in field.fields}
                values[name] = _value(text, values[name])
                if "Header.Task.TaskSize" in values:
                    values["Header.Task.TaskSize"] = int(values["Header.Task.TaskSize"]) + 2
        return chip.encode(replace(known, values=values, records=tuple(records)))

    def operation(self, operation: Operation) -> Operation:
        """The operation as the engine takes it."""
        for kind, name, value in self.change:
            owner, _, setting = name.partition(".")
            if type(operation).__name__ == owner:
                operation = _changed(operation, kind, setting, value)
        return operation

    def hangs(self, operation: Operation) -> bool:
        """Whether a task with this operation does not end."""
        return type(operation).__name__ in self.hang

    def chip(self, chip: Chip) -> Chip:
        """The chip with the arithmetic that the engine has."""
        if self.winograd is None:
            return chip
        return replace(chip, arithmetic=replace(chip.arithmetic, winograd=self.winograd))  # type: ignore[type-var]

    @property
    def computes(self) -> bool:
        """Whether numbers come out otherwise than believed, or may."""
        return self != Variation(rates=self.rates, refuse=self.refuse, noise=self.noise, fail=self.fail, seed=self.seed)

    @property
    def detaches(self) -> bool:
        """Whether sources are read through arrays of their own: what is changed as it is read stays as it is."""
        return bool(self.read) or self.race

    def refusal(self, amounts: Mapping[str, int]) -> str:
        """Why a program is refused; empty where it is not."""
        over = [f"{amounts[name]} {name}, more than {most}" for name, most in self.refuse if amounts[name] > most]
        return over[0] if over else ""


STANDARD = Variation()
"""The engine as it is believed to be."""


def _unwritten(chip: Chip) -> dict[str, tuple[int, str, Register]]:
    """Every field of a generation's registers: address and name of its register, and the register."""
    return {f"{name}.{field.name}": (address, name, register)
            for address, (name, register) in chip.bank.by_address.items() for field in register.fields}


def parse_variation(text: str) -> Variation:
    """The variation of a line. SimulationError names the term that means nothing."""
    found: dict[str, object] = {}
    for term in filter(None, (part.strip() for part in text.split(";"))):
        word, _, rest = term.partition(" ")
        try:
            name, value = _READERS[word](rest.strip())
        except (KeyError, ValueError):
            raise SimulationError(f"{term[:80]!r} says nothing about an engine; terms begin with "
                                  f"{', '.join(_READERS)}") from None
        found[name] = (*found.get(name, ()), *value) if isinstance(value, tuple) else value  # type: ignore[misc]
    return Variation(**found)  # type: ignore[arg-type]


def _value(text: str, like: Value) -> Value:
    """A field's value, of the type the field has."""
    if isinstance(like, str):
        return text
    return float(text) if isinstance(like, float) else int(text, 0)


def _changed(operation: Operation, kind: str, setting: str, value: str) -> Operation:
    owner, _, inner = setting.partition(".")
    record = getattr(operation, owner) if inner else operation
    name = inner or setting
    if kind == "reset":
        new = next(f.default if f.default is not MISSING else None for f in fields(record) if f.name == name)
    elif kind == "swap":
        new = tuple(reversed(getattr(record, name)))
    else:
        new = float(value)
    return with_fields(operation, {owner: with_fields(record, {name: new})} if inner else {name: new})


def _pair(text: str) -> tuple[str, object]:
    name, mark, value = text.partition("=")
    if not (name and mark and value):
        raise ValueError(text)
    return "take", ((name, value),)


def _change(kind: str) -> Callable[[str], tuple[str, object]]:
    def reader(text: str) -> tuple[str, object]:
        name, mark, value = text.partition("=")
        if "." not in name or bool(mark) is not (kind == "set"):
            raise ValueError(text)
        if value:
            float(value)
        return "change", ((kind, name, value),)
    return reader


def _one_of(name: str, known: Sequence[str] | dict[str, Rule], several: bool = True) -> Callable[[str],
                                                                                                  tuple[str, object]]:
    def reader(text: str) -> tuple[str, object]:
        if text not in known:
            raise ValueError(text)
        return name, (text,) if several else text
    return reader


def _rate(text: str) -> tuple[str, object]:
    name, _, value = text.partition("*")
    if name not in RATES or not 1e-3 <= float(value) <= 1e3:
        raise ValueError(text)
    return "rates", ((name, float(value)),)


def _refuse(text: str) -> tuple[str, object]:
    name, _, value = text.partition(">")
    if name not in REFUSABLE:
        raise ValueError(text)
    return "refuse", ((name, int(value)),)


def _share(name: str) -> Callable[[str], tuple[str, object]]:
    def reader(text: str) -> tuple[str, object]:
        value = float(text)
        if not 0 <= value < 1:
            raise ValueError(text)
        return name, value
    return reader


def _flag(name: str, value: object) -> Callable[[str], tuple[str, object]]:
    def reader(text: str) -> tuple[str, object]:
        if text:
            raise ValueError(text)
        return name, value
    return reader


def _hang(text: str) -> tuple[str, object]:
    if not text.isidentifier():
        raise ValueError(text)
    return "hang", (text,)


_READERS: dict[str, Callable[[str], tuple[str, object]]] = {
    "take": _pair, "reset": _change("reset"), "swap": _change("swap"), "set": _change("set"), "hang": _hang,
    "read": _one_of("read", READS), "store": _one_of("store", STORES), "sums": _one_of("sums", tuple(SUMS), False),
    "direct": _flag("winograd", False), "winograd": _flag("winograd", True), "float32": _flag("float32", True),
    "race": _flag("race", True), "rate": _rate, "refuse": _refuse, "noise": _share("noise"), "fail": _share("fail"),
    "seed": lambda text: ("seed", int(text))}

__all__ = ["READS", "STANDARD", "STORES", "SUMS", "Variation", "parse_variation"]
