"""What a tinygrad tensor is computed of, as StableHLO text.

tinygrad writes everything in a few operations: of elements, of shapes, and sums or maxima over leading axes. A sum of
products whose operands are repeated along each other's axes is a product of matrices, and is written as one. Windows of
convolutions are laid out by operations of shapes, as tinygrad has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod
from typing import Any, NamedTuple

import numpy as np

from openane.errors import UnsupportedError

Operation = Any
"""A tinygrad.uop.ops.UOp: `op`, `src`, `arg`, `dtype` and `shape`."""
_ELEMENTS = {"float": "f32", "half": "f16", "__bf16": "bf16", "double": "f64", "int": "i32", "long": "i64",
             "bool": "i1", "unsigned char": "ui8", "signed char": "i8", "short": "i16", "unsigned int": "ui32"}
_NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64,
          "i1": np.bool_, "ui8": np.uint8, "i8": np.int8, "i16": np.int16, "ui32": np.uint32}
_BINARY = {"ADD": "add", "MUL": "multiply", "MAX": "maximum", "SUB": "subtract", "FDIV": "divide", "POW": "power",
           "AND": "and", "OR": "or", "XOR": "xor"}
_UNARY = {"SQRT": "sqrt", "SIN": "sine", "NEG": "negate"}
_COMPARED = {"CMPLT": "LT", "CMPNE": "NE", "CMPEQ": "EQ"}
_HELD = ("BUFFER", "COPY", "BUFFER_VIEW")
_SAME = ("CONTIGUOUS", "CONTIGUOUS_BACKWARD", "DETACH")


class WrittenValue(NamedTuple):
    """A value of the text: its name, element type and shape, extents of 1 where it is repeated."""

    name: str
    element: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        """Its type in the text."""
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element}>"


class Translation:
    """The text of what tensors are computed of. `inputs` are the operations that stand for arguments, `computed` gives
    the numbers of an operation that depends on none of them."""

    def __init__(self, inputs: Sequence[Operation], computed: Callable[[Operation], np.ndarray]) -> None:
        self._computed, self._lines = computed, list[str]()
        self._inputs = [WrittenValue(f"%arg{at}", _element(each), tuple(each.shape)) for at, each in enumerate(inputs)]
        self._known: dict[Operation, WrittenValue] = dict(zip(inputs, self._inputs, strict=True))
        self._kinds: dict[Operation, str] = dict.fromkeys(inputs, "input")

    def text(self, results: Sequence[Operation]) -> str:
        """A module of one function. UnsupportedError for operations that are not read."""
        found = [self._whole(self._value(each), tuple(each.shape)) for each in results]
        arguments = ", ".join(f"{each.name}: {each.type}" for each in self._inputs)
        types = ", ".join(each.type for each in found)
        head = f"func.func public @main({arguments}) -> ({types})"
        return "\n".join([head + " {", *self._lines, f"  return {', '.join(e.name for e in found)} : {types}", "}", ""])

    def _value(self, last: Operation) -> WrittenValue:
        """An operation written down, those it needs before it."""
        waiting = [last]
        while waiting:
            uop = waiting[-1]
            needed = [] if uop in self._known or self._kind(uop) == "data" else \
                [each for each in _operands(uop) if each not in self._known]
            if needed:
                waiting += needed
                continue
            waiting.pop()
            if uop not in self._known:
                held = self._kind(uop) == "data"
                self._known[uop] = self._constant(self._computed(uop)) if held else self._written(uop)
        return self._known[last]

    def _kind(self, last: Operation) -> str:
        """What an operation depends on: an input, data that tinygrad holds, or numbers alone."""
        waiting = [last]
        while waiting:
            uop = waiting[-1]
            unknown = [each for each in uop.src if each not in self._kinds] if uop not in self._kinds else []
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            found = {self._kinds[each] for each in uop.src} | ({"data"} if uop.op.name in _HELD else set())
            self._kinds.setdefault(uop, next((kind for kind in ("input", "data") if kind in found), "number"))
        return self._kinds[last]

    def _constant(self, array: np.ndarray) -> WrittenValue:
        element = next(name for name, kind in _NUMPY.items() if name != "bf16" and kind == array.dtype)
        if element == "i1":
            array, element = array.astype(np.int8), "i8"
        kind = WrittenValue("", element, array.shape).type
        made = self._line(f'stablehlo.constant dense<"0x{np.ascontiguousarray(array).tobytes().hex()}"> : {kind}',
                          element, array.shape)
        return made if array.dtype != np.int8 else self._line(
            f"stablehlo.convert {made.name} : ({kind}) -> {made._replace(element='i1').type}", "i1", array.shape)

    def _number(self, number: float, element: str) -> WrittenValue:
        bits = np.array(number, np.float32).tobytes()[::-1].hex() if element == "f32" else None
        text = f"0x{bits}" if bits is not None else repr(float(number)) if element[0] in "fb" else str(int(number))
        return self._line(f"stablehlo.constant dense<{text}> : tensor<{element}>", element, ())

    def _line(self, text: str, element: str, shape: Sequence[int]) -> WrittenValue:
        made = WrittenValue(f"%{len(self._lines)}", element, tuple(shape))
        self._lines.append(f"  {made.name} = {text}")
        return made

    def _moved(self, op: str, x: WrittenValue, stated: str, shape: Sequence[int]) -> WrittenValue:
        """An operation of one operand, of another shape."""
        made = x._replace(shape=tuple(shape))
        return self._line(f"stablehlo.{op} {x.name}{stated} : ({x.type}) -> {made.type}", x.element, shape)

    def _whole(self, x: WrittenValue, shape: Sequence[int]) -> WrittenValue:
        """A value of all of a shape, which may have more leading axes."""
        if x.shape == tuple(shape):
            return x
        axes = list(range(len(shape) - len(x.shape), len(shape)))
        return self._moved("broadcast_in_dim", x, f", dims = {axes}", shape)

    def _reshaped(self, x: WrittenValue, shape: Sequence[int]) -> WrittenValue:
        return x if x.shape == tuple(shape) else self._moved("reshape", x, "", shape)

    def _each(self, op: str, *operands: WrittenValue, words: str = "", element: str = "") -> WrittenValue:
        """An operation of single elements, operands repeated as far as they need."""
        shape = np.broadcast_shapes(*(each.shape for each in operands))
        whole = [self._whole(each, shape) for each in operands]
        made = WrittenValue("", element or whole[-1].element, shape)
        types = ", ".join(each.type for each in whole)
        return self._line(f"stablehlo.{op} {words}{', '.join(each.name for each in whole)} : ({types}) -> {made.type}",
                          made.element, shape)

    def _given(self, uop: Operation, element: str = "") -> WrittenValue:
        """An operand, a number in the element type of the others."""
        if uop.op.name == "CONST":
            return self._number(uop.arg, element or _element(uop))
        return self._known[uop]

    def _written(self, uop: Operation) -> WrittenValue:
        name, operands = uop.op.name, _operands(uop)
        if name == "CONST":
            return self._number(uop.arg, _element(uop))
        x = self._known.get(operands[0]) if operands else None
        if name in _SAME and x is not None:
            return x
        product = _product(uop)
        if product is not None:
            return self._dot(uop, *product) or self._summed(uop, *product)
        if name in ("REDUCE", "RESHAPE", "EXPAND", "PERMUTE", "PAD", "SHRINK", "FLIP") and x is not None:
            return getattr(self, f"_{name.lower()}")(uop, x)  # type: ignore[no-any-return]
        return self._elementwise(uop)

    def _elementwise(self, uop: Operation) -> WrittenValue:
        name, element = uop.op.name, _element(uop)
        if name == "WHERE":
            condition, *branches = uop.src
            given = [self._given(condition, "i1"), *(self._given(each, element) for each in branches)]
            return self._each("select", *given)
        kind = next((_element(each) for each in uop.src if each.op.name != "CONST" or "weak" not in each.dtype.name),
                    element)
        given = [self._given(each, kind) for each in uop.src]
        if name in _BINARY:
            return self._simpler(uop, given) or self._each(_BINARY[name], *given)
        if name in _UNARY:
            return self._each(_UNARY[name], *given)
        if name in _COMPARED:
            return self._each("compare", *given, words=f"{_COMPARED[name]}, ", element="i1")
        if name == "CAST":
            return self._each("convert", *given, element=element)
        if name in ("EXP2", "LOG2", "RECIPROCAL"):
            return self._function(uop, given[0])
        raise UnsupportedError(f"tinygrad {name}", "this operation is not supported", found=str(uop.dtype),
                               remedy=f"functions that tinygrad writes in {', '.join([*_BINARY, *_UNARY])} and shapes")

    def _simpler(self, uop: Operation, given: Sequence[WrittenValue]) -> WrittenValue | None:
        """A difference, or a quotient, as one."""
        for x, other in ((0, 1), (1, 0)):
            second = uop.src[other]
            if uop.op.name == "ADD" and second.op.name == "MUL" and _is_number(second.src[1], -1.0) and \
                    second.src[0] in self._known:
                return self._each("subtract", given[x], self._known[second.src[0]])
            if uop.op.name == "MUL" and second.op.name == "RECIPROCAL" and second.src[0] in self._known:
                return self._each("divide", given[x], self._known[second.src[0]])
        return None

    def _function(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Powers and logarithms to base 2 by those to base e, as tinygrad makes its own; reciprocals."""
        inner = uop.src[0]
        if uop.op.name == "RECIPROCAL":
            return self._each("divide", self._number(1.0, x.element), x)
        if uop.op.name == "LOG2":
            return self._each("multiply", self._each("log", x), self._number(1 / log(2), x.element))
        if inner.op.name == "MUL" and _is_number(inner.src[1], 1 / log(2)) and inner.src[0] in self._known:
            return self._each("exponential", self._known[inner.src[0]])
        return self._each("exponential", self._each("multiply", x, self._number(log(2), x.element)))

    def _reshape(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        return self._reshaped(self._whole(x, tuple(uop.src[0].shape)), uop.shape)

    def _expand(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Repeated where that is needed alone."""
        return self._reshaped(x, (1,) * (len(uop.shape) - len(x.shape)) + x.shape)

    def _permute(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        return self._moved("transpose", x, f", dims = {list(uop.arg)}", [x.shape[axis] for axis in uop.arg])

    def _pad(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        x, low = self._whole(x, tuple(uop.src[0].shape)), _numbers(uop.src[1])
        high = [whole - extent - before for whole, extent, before in zip(uop.shape, x.shape, low, strict=True)]
        zero = self._number(0, x.element)
        made = x._replace(shape=tuple(uop.shape))
        return self._line(f"stablehlo.pad {x.name}, {zero.name}, low = {low}, high = {high}, interior = "
                          f"{[0] * len(low)} : ({x.type}, {zero.type}) -> {made.type}", x.element, made.shape)

    def _shrink(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        x, begins = self._whole(x, tuple(uop.src[0].shape)), _numbers(uop.src[1])
        kept = ", ".join(f"{begin}:{begin + size}" for begin, size in zip(begins, uop.shape, strict=True))
        return self._moved("slice", x, f" [{kept}]", uop.shape)

    def _flip(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        axes = [axis for axis, turned in enumerate(uop.arg) if turned]
        return self._moved("reverse", x, f", dims = {axes}", x.shape)

    def _reduce(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Sums and maxima over leading axes."""
        kind, count = uop.arg[0].name, uop.arg[1]
        x = self._whole(x, tuple(uop.src[0].shape))
        if kind not in ("ADD", "MAX") or len(uop.src) != 1:
            raise UnsupportedError(f"tinygrad REDUCE {kind}", "this reduction is not supported", found=kind,
                                   remedy="sums and maxima")
        first = self._number(0.0 if kind == "ADD" else -np.inf, x.element)
        made = x._replace(shape=x.shape[count:])
        return self._line(f"stablehlo.reduce({x.name} init: {first.name}) applies stablehlo.{_BINARY[kind]} across "
                          f"dimensions = {list(range(count))} : ({x.type}, {first.type}) -> {made.type}", x.element,
                          made.shape)

    def _summed(self, uop: Operation, first: Operation, second: Operation, axes: Sequence[int]) -> WrittenValue:
        """A sum over the leading ones of `axes` of products, element by element."""
        product = self._each("multiply", self._known[first], self._known[second])
        product = self._ranked(product, len(axes))
        if list(axes) != sorted(axes):
            shape = [product.shape[axis] for axis in axes]
            product = self._moved("transpose", product, f", dims = {list(axes)}", shape)
        return self._reduce(uop, product)

    def _dot(self, uop: Operation, first: Operation, second: Operation, axes: Sequence[int]) -> WrittenValue | None:
        """A sum over the leading ones of `axes` of products; None where it is no product of matrices."""
        x, y = (self._ranked(self._known[each], len(axes)) for each in (first, second))
        mine, theirs, count = _wide(x), _wide(y), uop.arg[1]
        batch, summed = (sorted(mine & theirs & {*part}, key=axes.index) for part in (axes[count:], axes[:count]))
        if not summed or mine == theirs or not (mine ^ theirs).isdisjoint(axes[:count]):
            return None
        extents = np.broadcast_shapes(x.shape, y.shape)
        made = [*batch, *sorted(mine - theirs), *sorted(theirs - mine)]
        found = self._multiplied((x, sorted(mine)), (y, sorted(theirs)), (batch, summed), [extents[at] for at in made])
        order = [made.index(axis) for axis in axes[count:] if axis in made]
        if order != sorted(order):
            found = self._moved("transpose", found, f", dims = {order}", [found.shape[at] for at in order])
        return self._reshaped(found, [extents[axis] for axis in axes[count:]])

    def _ranked(self, x: WrittenValue, rank: int) -> WrittenValue:
        """A value with as many axes, those in front of extent 1."""
        return self._reshaped(x, (1,) * (rank - len(x.shape)) + x.shape)

    def _multiplied(self, first: tuple[WrittenValue, list[int]], second: tuple[WrittenValue, list[int]],
                    named: tuple[list[int], list[int]], shape: Sequence[int]) -> WrittenValue:
        """The product of two values without the axes of extent 1, batching and contracting those that are named."""
        stated, whole = [], []
        for x, own in (first, second):
            whole.append(self._reshaped(x, [x.shape[axis] for axis in own]))
            stated.append([[own.index(axis) for axis in axes] for axes in named])
        (batch, summed), (other_batch, other_summed) = stated
        x, y = whole
        made = WrittenValue("", x.element, tuple(shape))
        return self._line(f"stablehlo.dot_general {x.name}, {y.name}, batching_dims = {batch} x {other_batch}, "
                          f"contracting_dims = {summed} x {other_summed} : ({x.type}, {y.type}) -> {made.type}",
                          x.element, shape)


def _wide(x: WrittenValue) -> set[int]:
    """The axes that are not of extent 1."""
    return {axis for axis, extent in enumerate(x.shape) if extent > 1}


def _operands(uop: Operation) -> list[Operation]:
    """The operations whose values an operation is written with."""
    product = _product(uop)
    if product is not None:
        return list(product[:2])
    if uop.op.name in ("RESHAPE", "EXPAND", "PERMUTE", "PAD", "SHRINK", "FLIP", "REDUCE"):
        return [uop.src[0]]
    inner = [each.src[0] for each in uop.src if each.op.name in ("RECIPROCAL", "MUL") and uop.op.name != "REDUCE"]
    return [each for each in (*uop.src, *inner) if each.op.name != "CONST"]


def _product(uop: Operation) -> tuple[Operation, Operation, list[int]] | None:
    """The factors of what is summed, and which of their axes each axis of the sum's operand is."""
    if uop.op.name != "REDUCE" or uop.arg[0].name != "ADD" or len(uop.src) != 1:
        return None
    found, axes = uop.src[0], list(range(len(uop.src[0].shape)))
    while found.op.name == "PERMUTE":
        axes = [found.arg[axis] for axis in axes]
        found = found.src[0]
    if found.op.name != "MUL" or any(each.op.name == "CONST" for each in found.src) or prod(found.shape) == 0:
        return None
    return found.src[0], found.src[1], axes


def _is_number(uop: Operation, number: float) -> bool:
    return uop.op.name == "CONST" and abs(float(uop.arg) - number) < 1e-6


def _numbers(uop: Operation) -> list[int]:
    """The numbers of a list of sizes."""
    return [int(each.arg) for each in uop.src]


def _element(uop: Operation) -> str:
    name = {"weakfloat": "float", "weakint": "int"}.get(uop.dtype.name, uop.dtype.name)
    if name not in _ELEMENTS:
        raise UnsupportedError(f"tinygrad {uop.op.name}", "this element type is not supported", found=name,
                               remedy=f"one of {', '.join(_ELEMENTS)}")
    return _ELEMENTS[name]
