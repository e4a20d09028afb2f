"""Constants in fp16 that are rounded when somebody asks for them: of a weight that a gain is folded into only what is
folded counts, and that is rounded from all its digits."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from openane.graph import RoundedConstant, TensorType, Value
from openane.ops.half_bits import INFINITE, LEAST, to_half

Kind = TypeVar("Kind")
Peak = tuple[float, int]
"""The largest magnitude among numbers, and where it is, counted row by row."""


class _Late(Value):
    """A constant whose `data` is made when it is first asked for."""

    __slots__ = ()

    def _made(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def constant(self) -> bool:
        """It is known when a graph is compiled."""
        return True

    @property
    def asked(self) -> bool:
        """Whether its numbers were asked for, and lie in memory."""
        try:
            object.__getattribute__(self, "data")
        except AttributeError:
            return False
        return True

    def __getattr__(self, name: str) -> np.ndarray:
        """`data`, where there is none yet."""
        if name != "data":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        data = self._made()
        object.__setattr__(self, "data", data)
        return data


class LateConstant(_Late, RoundedConstant):
    """A constant whose numbers are those of `stated`, float32, each rounded to fp16, which holds all of them."""

    __slots__ = ("_peak",)
    _peak: Peak

    @staticmethod
    def of(name: str, stated: np.ndarray, peak: Peak | None = None) -> LateConstant:
        """Of numbers that have a `peak_to_round`, which may be known."""
        made = _filled(LateConstant, name=name, type=TensorType("fp16", stated.shape), stated=stated, exponent=0)
        if peak is not None:
            object.__setattr__(made, "_peak", peak)
        return made

    def peak(self) -> Peak:
        """The largest magnitude of the numbers in all their digits, looked for once."""
        try:
            return self._peak
        except AttributeError:
            object.__setattr__(self, "_peak", _peak_of(self.digits()))
            return self._peak

    def in_its_type(self) -> Value:
        """The constant in fp16 alone, which is not rounded for that either."""
        if self.asked:
            return Value(self.name, self.type, self.data)
        return LateValue.of(self)

    def _made(self) -> np.ndarray:
        return to_half(self.digits(), finite=True)


class LateValue(_Late):
    """A constant in its type, whose numbers another one makes. That one is given up when they are asked for: a
    `LateConstant` with its other digits, which is rounded then."""

    __slots__ = ("before",)
    before: Value

    @staticmethod
    def of(constant: Value) -> LateValue:
        """The numbers of a constant."""
        return _filled(LateValue, name=constant.name, type=constant.type, before=constant)

    def _made(self) -> np.ndarray:
        data = self.before.data
        assert isinstance(data, np.ndarray)
        return data

    def __getattr__(self, name: str) -> np.ndarray:
        """`data`, where there is none yet."""
        data = super().__getattr__(name)
        object.__delattr__(self, "before")
        return data


def _filled(kind: type[Kind], **fields: object) -> Kind:
    """A record of a class that has these fields, and no others yet."""
    made = object.__new__(kind)
    for name, content in fields.items():
        object.__setattr__(made, name, content)
    return made


def beginning(constant: Value, count: int) -> np.ndarray:
    """The first numbers of a constant array, at most `count`, in its type."""
    if isinstance(constant, LateConstant) and not constant.asked:
        return to_half(constant.digits().flat[:count])
    return np.asarray(constant.array().flat[:count])


def peak_to_round(digits: np.ndarray) -> Peak | None:
    """The largest magnitude of numbers that may be a `LateConstant`, and are as many as make that worth it; None of
    others."""
    peak = _peak_of(digits) if digits.dtype == np.float32 and digits.size >= LEAST else None
    return peak if peak is not None and peak[0] < INFINITE else None


def _peak_of(numbers: np.ndarray) -> Peak:
    """The largest magnitude, NaN where one is NaN."""
    highest, lowest = int(numbers.argmax()), int(numbers.argmin())
    above, below = float(numbers.flat[highest]), -float(numbers.flat[lowest])
    return (below, lowest) if below > above else (above, highest)
