"""What a tinygrad tensor is computed of, as StableHLO text.

tinygrad writes everything in a few operations: of elements, of shapes, and sums, products or maxima over leading axes.
A sum of products whose operands are repeated along each other's axes is a product of matrices, and is written as one.
Windows of convolutions are laid out by operations of shapes, as tinygrad has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod

import numpy as np

from openane.errors import UnsupportedError
from openane.tinygrad.lines import Operation, StableText, WrittenValue, element_of
from openane.tinygrad.reading import SHAPES, angle_of, factors_of, is_number, operands_of, scalar, sizes

_BINARY = {"ADD": "add", "MUL": "multiply", "MAX": "maximum", "SUB": "subtract", "FDIV": "divide", "POW": "power",
           "AND": "and", "OR": "or", "XOR": "xor", "CDIV": "divide", "CMOD": "remainder", "SHL": "shift_left",
           "SHR": "shift_right_arithmetic"}
_OF_TRUTH = {"ADD": "or", "MAX": "or", "MUL": "and"}
"""What operations of numbers are of truth values."""
_REDUCED = ("ADD", "MAX", "MUL")
_COMPACT = ("CONST", "RESHAPE", "EXPAND")
"""Operations of numbers alone that are written down: what they give may be far larger than what they are given."""
_ELEMENTWISE = {**_BINARY, "SQRT": "sqrt", "SIN": "sine", "NEG": "negate"}
_COMPARED = {"CMPLT": "LT", "CMPNE": "NE", "CMPEQ": "EQ"}
_HELD = ("BUFFER", "COPY", "BUFFER_VIEW")
_SAME = ("CONTIGUOUS", "CONTIGUOUS_BACKWARD", "DETACH")


class Translation:
    """The text of what tensors are computed of. `inputs` are the operations that stand for arguments, `computed` gives
    the numbers of an operation that depends on none of them."""

    def __init__(self, inputs: Sequence[Operation], computed: Callable[[Operation], np.ndarray]) -> None:
        self._computed, self._text = computed, StableText()
        self._inputs = [WrittenValue(f"%arg{at}", element_of(each), tuple(each.shape))
                        for at, each in enumerate(inputs)]
        self._known: dict[Operation, WrittenValue] = dict(zip(inputs, self._inputs, strict=True))
        self._kinds: dict[Operation, str] = dict.fromkeys(inputs, "input")

    def text(self, results: Sequence[Operation]) -> str:
        """A module of one function. UnsupportedError for operations that are not read."""
        found = [self._text.whole(self._value(each), tuple(each.shape)) for each in results]
        arguments = ", ".join(f"{each.name}: {each.type}" for each in self._inputs)
        types = ", ".join(each.type for each in found)
        head = f"func.func public @main({arguments}) -> ({types})"
        end = f"  return {', '.join(each.name for each in found)} : {types}"
        return "\n".join([head + " {", *self._text.lines, end, "}", ""])

    def _value(self, last: Operation) -> WrittenValue:
        """An operation written down, those it needs before it."""
        waiting = [last]
        while waiting:
            uop = waiting[-1]
            held = self._held(uop)
            needed = [] if uop in self._known or held else \
                [each for each in operands_of(uop) if each not in self._known]
            if needed:
                waiting += needed
                continue
            waiting.pop()
            if uop not in self._known:
                self._known[uop] = self._text.constant(self._computed(uop)) if held else self._written(uop)
        return self._known[last]

    def _held(self, uop: Operation) -> bool:
        """Whether an operation's numbers are computed by tinygrad: positions and masks as well, which it makes of many
        small operations."""
        kind = self._kind(uop)
        return kind == "data" or (kind == "number" and uop.op.name not in _COMPACT and prod(uop.shape) > 1)

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

    def _given(self, uop: Operation, element: str = "") -> WrittenValue:
        """An operand, a number in the element type of the others."""
        if uop.op.name == "CONST":
            return self._text.number(uop.arg, element or element_of(uop))
        return self._known[uop]

    def _written(self, uop: Operation) -> WrittenValue:
        name, operands = uop.op.name, operands_of(uop)
        if name == "CONST":
            return self._text.number(uop.arg, element_of(uop))
        x = self._known.get(operands[0]) if operands else None
        if name in _SAME and x is not None:
            return x
        product = factors_of(uop)
        if product is not None:
            return self._dot(uop, *product) or self._summed(uop, *product)
        if name in ("REDUCE", *SHAPES) and x is not None:
            return getattr(self, f"_{name.lower()}")(uop, x)  # type: ignore[no-any-return]
        if name == "STACK":
            return self._stacked(uop)
        return self._elementwise(uop)

    def _elementwise(self, uop: Operation) -> WrittenValue:
        name, element = uop.op.name, element_of(uop)
        if name == "WHERE":
            return self._whole_number(uop) or self._text.each("select", self._given(uop.src[0], "i1"), *(
                self._given(each, element) for each in uop.src[1:]))
        kind = next((element_of(each) for each in uop.src if each.op.name != "CONST" or "weak" not in each.dtype.name),
                    element)
        given = [self._given(each, kind) for each in uop.src]
        simpler = self._simpler(uop, given)
        if simpler is not None:
            return simpler
        if name in _ELEMENTWISE:
            return self._text.each(_ELEMENTWISE[name], *given)
        if name in _COMPARED:
            return self._text.each("compare", *given, words=f"{_COMPARED[name]}, ", element="i1")
        if name == "CAST":
            return self._text.each("convert", *given, element=element)
        if name in ("TRUNC", "EXP2", "LOG2", "RECIPROCAL"):
            return self._function(uop, given[0])
        raise UnsupportedError(f"tinygrad {name}", "this operation is not supported", found=str(uop.dtype),
                               remedy=f"functions that tinygrad writes in {', '.join(_ELEMENTWISE)} and shapes")

    def _simpler(self, uop: Operation, given: Sequence[WrittenValue]) -> WrittenValue | None:
        """What is written otherwise than by its name: of truth values, of integers, a cosine, a difference or a
        quotient as one."""
        name = uop.op.name
        if name in _OF_TRUTH and given[0].element == "i1":
            return self._text.each(_OF_TRUTH[name], *given)
        if name in ("FLOORDIV", "FLOORMOD"):
            return self._floored(name, *given)
        angle = angle_of(uop)
        if angle is not None and angle in self._known:
            return self._text.each("cosine", self._known[angle])
        return self._inverse(uop, given) if name in ("ADD", "MUL") else None

    def _inverse(self, uop: Operation, given: Sequence[WrittenValue]) -> WrittenValue | None:
        """A difference, or a quotient, as one."""
        for x, other in ((0, 1), (1, 0)):
            second = uop.src[other]
            if uop.op.name == "ADD" and second.op.name == "MUL" and is_number(second.src[1], -1.0) and \
                    second.src[0] in self._known:
                return self._text.each("subtract", given[x], self._known[second.src[0]])
            if uop.op.name == "MUL" and second.op.name == "RECIPROCAL" and second.src[0] in self._known:
                return self._text.each("divide", given[x], self._known[second.src[0]])
        return None

    def _whole_number(self, uop: Operation) -> WrittenValue | None:
        """The next whole number below or above: where the truncated one lies on the other side, one farther."""
        condition, farther, near = uop.src
        if near.op.name != "TRUNC" or near.src[0] not in self._known or condition.op.name != "CMPLT" or \
                farther.op.name != "ADD" or farther.src[0] is not near or set(condition.src) != {near, near.src[0]}:
            return None
        below = condition.src[1] is near
        step = scalar(farther.src[1])
        return self._text.each("floor" if below else "ceil", self._known[near.src[0]]) \
            if step == (-1.0 if below else 1.0) else None

    def _floored(self, name: str, x: WrittenValue, y: WrittenValue) -> WrittenValue:
        """Quotients and remainders of integers, rounded down: those rounded towards 0, one less where a remainder is
        left that has not the divisor's sign."""
        left, zero = self._text.each("remainder", x, y), self._text.number(0, x.element)
        some = self._text.each("compare", left, zero, words="NE, ", element="i1")
        signs = [self._text.each("compare", each, zero, words="LT, ", element="i1") for each in (left, y)]
        apart = self._text.each("and", some, self._text.each("xor", *signs))
        if name == "FLOORMOD":
            return self._text.each("select", apart, self._text.each("add", left, y), left)
        quotient = self._text.each("divide", x, y)
        less = self._text.each("subtract", quotient, self._text.number(1, x.element))
        return self._text.each("select", apart, less, quotient)

    def _stacked(self, uop: Operation) -> WrittenValue:
        """Several of one shape along a new first axis."""
        shape, element = tuple(uop.shape), element_of(uop)
        parts = [self._text.reshaped(self._text.whole(self._given(each, element), shape[1:]), (1, *shape[1:]))
                 for each in uop.src]
        made = WrittenValue("", element, shape)
        return self._text.line(f"stablehlo.concatenate {', '.join(each.name for each in parts)}, dim = 0 : "
                               f"({', '.join(each.type for each in parts)}) -> {made.type}", element, shape)

    def _function(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Powers and logarithms to base 2 by those to base e, as tinygrad makes its own; reciprocals, and whole
        numbers towards 0."""
        inner = uop.src[0]
        if uop.op.name == "TRUNC":
            return self._text.each("multiply", self._text.each("floor", self._text.each("abs", x)),
                                   self._text.each("sign", x))
        if uop.op.name == "RECIPROCAL":
            return self._text.each("divide", self._text.number(1.0, x.element), x)
        if uop.op.name == "LOG2":
            return self._text.each("multiply", self._text.each("log", x), self._text.number(1 / log(2), x.element))
        if inner.op.name == "MUL" and is_number(inner.src[1], 1 / log(2)) and inner.src[0] in self._known:
            return self._text.each("exponential", self._known[inner.src[0]])
        return self._text.each("exponential", self._text.each("multiply", x, self._text.number(log(2), x.element)))

    def _reshape(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        return self._text.reshaped(self._text.whole(x, tuple(uop.src[0].shape)), uop.shape)

    def _expand(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Repeated where that is needed alone."""
        return self._text.reshaped(x, (1,) * (len(uop.shape) - len(x.shape)) + x.shape)

    def _permute(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        return self._text.rearranged("transpose", x, f", dims = {list(uop.arg)}", [x.shape[axis] for axis in uop.arg])

    def _pad(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        x, low = self._text.whole(x, tuple(uop.src[0].shape)), sizes(uop.src[1])
        high = [whole - extent - before for whole, extent, before in zip(uop.shape, x.shape, low, strict=True)]
        zero = self._text.number(0, x.element)
        made = x._replace(shape=tuple(uop.shape))
        return self._text.line(f"stablehlo.pad {x.name}, {zero.name}, low = {low}, high = {high}, interior = "
                          f"{[0] * len(low)} : ({x.type}, {zero.type}) -> {made.type}", x.element, made.shape)

    def _shrink(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        x, begins = self._text.whole(x, tuple(uop.src[0].shape)), sizes(uop.src[1])
        kept = ", ".join(f"{begin}:{begin + size}" for begin, size in zip(begins, uop.shape, strict=True))
        return self._text.rearranged("slice", x, f" [{kept}]", uop.shape)

    def _flip(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        axes = [axis for axis, turned in enumerate(uop.arg) if turned]
        return self._text.rearranged("reverse", x, f", dims = {axes}", x.shape)

    def _reduce(self, uop: Operation, x: WrittenValue) -> WrittenValue:
        """Sums, products and maxima over leading axes."""
        kind, count = uop.arg[0].name, uop.arg[1]
        x = self._text.whole(x, tuple(uop.src[0].shape))
        if kind not in _REDUCED or len(uop.src) != 1:
            raise UnsupportedError(f"tinygrad REDUCE {kind}", "this reduction is not supported", found=kind,
                                   remedy="sums, products and maxima")
        op = _OF_TRUTH[kind] if x.element == "i1" else _BINARY[kind]
        first = self._text.neutral(op, x.element)
        made = x._replace(shape=x.shape[count:])
        return self._text.line(f"stablehlo.reduce({x.name} init: {first.name}) applies stablehlo.{op} across "
                          f"dimensions = {list(range(count))} : ({x.type}, {first.type}) -> {made.type}", x.element,
                          made.shape)

    def _summed(self, uop: Operation, first: Operation, second: Operation, axes: Sequence[int]) -> WrittenValue:
        """A sum over the leading ones of `axes` of products, element by element."""
        product = self._text.each("multiply", self._known[first], self._known[second])
        product = self._ranked(product, len(axes))
        if list(axes) != sorted(axes):
            shape = [product.shape[axis] for axis in axes]
            product = self._text.rearranged("transpose", product, f", dims = {list(axes)}", shape)
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
            found = self._text.rearranged("transpose", found, f", dims = {order}", [found.shape[at] for at in order])
        return self._text.reshaped(found, [extents[axis] for axis in axes[count:]])

    def _ranked(self, x: WrittenValue, rank: int) -> WrittenValue:
        """A value with as many axes, those in front of extent 1."""
        return self._text.reshaped(x, (1,) * (rank - len(x.shape)) + x.shape)

    def _multiplied(self, first: tuple[WrittenValue, list[int]], second: tuple[WrittenValue, list[int]],
                    named: tuple[list[int], list[int]], shape: Sequence[int]) -> WrittenValue:
        """The product of two values without the axes of extent 1, batching and contracting those that are named."""
        stated, whole = [], []
        for x, own in (first, second):
            whole.append(self._text.reshaped(x, [x.shape[axis] for axis in own]))
            stated.append([[own.index(axis) for axis in axes] for axes in named])
        (batch, summed), (other_batch, other_summed) = stated
        x, y = whole
        made = WrittenValue("", x.element, tuple(shape))
        return self._text.line(f"stablehlo.dot_general {x.name}, {y.name}, batching_dims = {batch} x {other_batch}, "
                          f"contracting_dims = {summed} x {other_summed} : ({x.type}, {y.type}) -> {made.type}",
                          x.element, shape)


def _wide(x: WrittenValue) -> set[int]:
    """The axes that are not of extent 1."""
    return {axis for axis, extent in enumerate(x.shape) if extent > 1}
