"""StableHLO text as it is written: values with their types, and the lines that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from openane.errors import UnsupportedError

Operation = Any
"""A tinygrad.uop.ops.UOp: `op`, `src`, `arg`, `dtype` and `shape`."""
_ELEMENTS = {"float": "f32", "half": "f16", "__bf16": "bf16", "double": "f64", "int": "i32", "long": "i64",
             "bool": "i1", "unsigned char": "ui8", "signed char": "i8", "short": "i16", "unsigned int": "ui32"}
_NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64,
          "i1": np.bool_, "ui8": np.uint8, "i8": np.int8, "i16": np.int16, "ui32": np.uint32}
_NEUTRAL = {"add": 0, "or": 0, "multiply": 1, "and": 1}


class WrittenValue(NamedTuple):
    """A value of the text: its name, element type and shape, extents of 1 where it is repeated."""

    name: str
    element: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        """Its type in the text."""
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element}>"


class StableText:
    """The lines of a function's body, and what makes them: every method gives the value that its line is."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def constant(self, array: np.ndarray) -> WrittenValue:
        """Known numbers. numpy's types that StableHLO has."""
        element = next(name for name, kind in _NUMPY.items() if name != "bf16" and kind == array.dtype)
        if element == "i1":
            array, element = array.astype(np.int8), "i8"
        kind = WrittenValue("", element, array.shape).type
        made = self.line(f'stablehlo.constant dense<"0x{np.ascontiguousarray(array).tobytes().hex()}"> : {kind}',
                         element, array.shape)
        return made if array.dtype != np.int8 else self.line(
            f"stablehlo.convert {made.name} : ({kind}) -> {made._replace(element='i1').type}", "i1", array.shape)

    def number(self, number: float, element: str) -> WrittenValue:
        """One number, of no axes."""
        if element == "i1":
            return self.line(f"stablehlo.constant dense<{'true' if number else 'false'}> : tensor<i1>", element, ())
        bits = np.array(number, np.float32).tobytes()[::-1].hex() if element == "f32" else None
        text = f"0x{bits}" if bits is not None else repr(float(number)) if element[0] in "fb" else str(int(number))
        return self.line(f"stablehlo.constant dense<{text}> : tensor<{element}>", element, ())

    def neutral(self, op: str, element: str) -> WrittenValue:
        """The number that changes nothing in what it is added to, multiplied with or compared to."""
        if op in _NEUTRAL:
            return self.number(_NEUTRAL[op], element)
        kind: np.dtype[Any] = np.dtype(_NUMPY[element])
        return self.number(float(-np.inf) if kind.kind == "f" else np.iinfo(kind).min, element)

    def line(self, text: str, element: str, shape: Sequence[int]) -> WrittenValue:
        """A line as it is, and its value."""
        made = WrittenValue(f"%{len(self.lines)}", element, tuple(shape))
        self.lines.append(f"  {made.name} = {text}")
        return made

    def rearranged(self, op: str, x: WrittenValue, stated: str, shape: Sequence[int]) -> WrittenValue:
        """An operation of one operand, of another shape."""
        made = x._replace(shape=tuple(shape))
        return self.line(f"stablehlo.{op} {x.name}{stated} : ({x.type}) -> {made.type}", x.element, shape)

    def whole(self, x: WrittenValue, shape: Sequence[int]) -> WrittenValue:
        """A value of all of a shape, which may have more leading axes."""
        if x.shape == tuple(shape):
            return x
        axes = list(range(len(shape) - len(x.shape), len(shape)))
        return self.rearranged("broadcast_in_dim", x, f", dims = {axes}", shape)

    def reshaped(self, x: WrittenValue, shape: Sequence[int]) -> WrittenValue:
        """The same elements in order, in another shape."""
        return x if x.shape == tuple(shape) else self.rearranged("reshape", x, "", shape)

    def each(self, op: str, *operands: WrittenValue, words: str = "", element: str = "") -> WrittenValue:
        """An operation of single elements, operands repeated as far as they need."""
        shape = np.broadcast_shapes(*(each.shape for each in operands))
        whole = [self.whole(each, shape) for each in operands]
        made = WrittenValue("", element or whole[-1].element, shape)
        types = ", ".join(each.type for each in whole)
        return self.line(f"stablehlo.{op} {words}{', '.join(each.name for each in whole)} : ({types}) -> {made.type}",
                         made.element, shape)


def element_of(uop: Operation) -> str:
    """StableHLO's name of an operation's element type. UnsupportedError where it has none here."""
    name = {"weakfloat": "float", "weakint": "int"}.get(uop.dtype.name, uop.dtype.name)
    if name not in _ELEMENTS:
        raise UnsupportedError(f"tinygrad {uop.op.name}", "this element type is not supported", found=name,
                               remedy=f"one of {', '.join(_ELEMENTS)}")
    return _ELEMENTS[name]
