"""Element-by-element tasks: cache-sized blocks through decode, a function, and encode.

A function of one fp16 operand has 65536 possible inputs: it is tabulated once when the program is loaded, and running
it is one look-up per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openane.simulator.arithmetic.half import (
    BLOCK,
    INFINITY_BITS,
    Bits,
    Floats,
    decode,
    encode_away,
    encode_even,
    is_nan,
)
from openane.simulator.blocks import paired_blocks
from openane.simulator.context import Context
from openane.simulator.memory import Operand
from openane.simulator.report import TaskReport

Function = Callable[..., np.ndarray]
"""Takes one contiguous float32 array per operand, which it may overwrite; returns an array of their shape."""

MAP_FROM = 1 << 14
"""Elements from which tabulating all inputs pays."""

INTEGER_RANGE = {np.dtype("i1"): (-128, 127), np.dtype("u1"): (0, 255)}


def read(raw: np.ndarray, out: Floats, report: TaskReport) -> None:
    """Raw elements (fp16 words or integers) as float32 in `out`; NaN and infinities are counted."""
    if raw.dtype == np.uint16:
        nan, infinite = decode(raw, out)
        report.nan_inputs += nan
        report.infinite_inputs += infinite
    else:
        np.copyto(out, raw)


def write(values: np.ndarray, target: np.ndarray, context: Context, *, to_even: bool) -> None:
    """Rounds `values` to the elements of `target` (any strides, same number of elements) and counts them. fp16 words
    are made in the memory of float32 `values`, which are lost."""
    values = values.reshape(target.shape)
    if target.dtype != np.uint16:
        rounded = np.clip(np.rint(np.nan_to_num(values)), *INTEGER_RANGE[target.dtype])
        context.report.widen(float(rounded.min()), float(rounded.max()))
        target[...] = rounded
        return
    if values.dtype == np.float32:
        values = np.ascontiguousarray(values)
        bits = values.reshape(-1).view(np.uint16)[:values.size].reshape(values.shape)
        context.workspace.encoder.encode(values, bits, to_even=to_even)
    else:
        bits = encode_even(values) if to_even else encode_away(values)
    context.report.stored(bits)
    target[...] = bits


class Stream:
    """One prepared element-by-element task."""

    def __init__(self, sources: Sequence[Operand], result: Operand, function: Function | None, context: Context,
                 *, to_even: bool) -> None:
        """`function` None copies elements as they are. Every source must broadcast to the result's shape."""
        self._function, self._to_even, self._context, self._report = function, to_even, context, context.report
        arrays = [operand.array for operand in (*sources, result)]
        self._blocks = paired_blocks(arrays, BLOCK)
        halves = all(array.dtype == np.uint16 for array in arrays)
        self._map: Bits | None = None
        if function is not None and len(sources) == 1 and halves and result.array.size >= MAP_FROM:
            self._map = context.workspace.shared(self._tabulate(function))
        self._copies = function is None and halves

    def run(self) -> None:
        """Computes every block."""
        step = self._look_up if self._map is not None else self._copy if self._copies else self._compute
        for block in self._blocks:
            step(*block)

    def _tabulate(self, function: Function) -> Bits:
        every = np.arange(1 << 16, dtype=np.uint16)
        numbers = np.empty(every.shape, np.float32)
        decode(every, numbers)
        result = function(numbers)
        return encode_even(result) if self._to_even else encode_away(result)

    def _look_up(self, source: np.ndarray, target: np.ndarray) -> None:
        assert self._map is not None
        self._report.saw(source)
        bits = self._context.workspace.bits(source.shape)
        np.take(self._map, source, out=bits, mode="clip")
        self._report.stored(bits)
        target[...] = bits

    def _copy(self, source: np.ndarray, target: np.ndarray) -> None:
        before = self._report.nan_inputs
        self._report.saw(source)
        np.copyto(target, source)
        if self._report.nan_inputs != before:
            target[is_nan(source)] = INFINITY_BITS
        self._report.stored(target)

    def _compute(self, *block: np.ndarray) -> None:
        *raw, target = block
        numbers = []
        for place, source in enumerate(raw):
            values = self._context.workspace.floats(source.shape, place)
            read(source, values, self._report)
            numbers.append(values)
        result = numbers[0] if self._function is None else self._function(*numbers)
        write(result, target, self._context, to_even=self._to_even)
