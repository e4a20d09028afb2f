"""Tasks that work element by element, in blocks that fit the processor's cache: fp16 to float32, a function, and back.

A function of one fp16 operand has only 65536 possible inputs. When it has been computed for that many elements (or at
once, where a task is large) its results are put into a table, and executing the task is one look-up per element.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from openane.simulator.arithmetic.half import (
    BLOCK,
    Bits,
    Floats,
    decode,
    encode_away,
    encode_even,
)
from openane.simulator.blocks import paired_blocks
from openane.simulator.calls import LoopCall, PreparedTask, TaskCalls, Together
from openane.simulator.chunks import ChunkTask, Recipe, TranslateTask
from openane.simulator.context import Lookup, TaskContext
from openane.simulator.memory import OperandArray
from openane.simulator.report import TaskReport
from openane.simulator.threads import lanes_for, portions

Function = Callable[..., np.ndarray]
"""Takes one contiguous float32 array per operand, which it may overwrite; returns an array of their shape."""

WORDS = 1 << 16
MAP_FROM = 1 << 14
"""Elements of a task from which all inputs are tabulated at once."""

CALL = 1 << 12
"""Elements that take as long as calling what computes them: a task of few elements is tabulated, too, in time."""

INTEGER_RANGE = {np.dtype("i1"): (-128, 127), np.dtype("u1"): (0, 255)}


def read(raw: np.ndarray, out: Floats, report: TaskReport) -> None:
    """Raw elements (fp16 words or integers) as float32 in `out`; NaN and infinities are counted."""
    if raw.dtype == np.uint16:
        nan, infinite = decode(raw, out)
        report.nan_inputs += nan
        report.infinite_inputs += infinite
    else:
        np.copyto(out, raw)


def write(values: np.ndarray, target: np.ndarray, context: TaskContext, *, to_even: bool) -> None:
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
        context.report.held(bits, *context.workspace.encoder.encode(values, bits, to_even=to_even))
    else:
        bits = encode_even(values) if to_even else encode_away(values)
        context.report.stored(bits)
    target[...] = bits


def _part(array: np.ndarray, axis: int, part: slice) -> np.ndarray:
    """Some of an operand, which is broadcast where it has one element."""
    return array if array.shape[axis] == 1 else array[(slice(None),) * axis + (part,)]


class ElementwiseTask(PreparedTask):
    """One prepared element-by-element task."""

    def __init__(self, sources: Sequence[OperandArray], result: OperandArray, function: Function | None,
                 context: TaskContext, *, to_even: bool, key: Hashable = None,
                 recipe: Recipe | None = None) -> None:
        """`function` None copies elements as they are. Every source must broadcast to the result's shape. `key` says
        which function of one operand it is: equal ones share their table; `recipe` is the function for the compiled
        loop, where that knows it."""
        self._function, self._to_even, self._context, self._report = function, to_even, context, context.report
        arrays = [operand.array for operand in (*sources, result)]
        self._blocks = paired_blocks(arrays, BLOCK)
        halves = all(array.dtype == np.uint16 for array in arrays)
        self._copies = function is None and halves
        self._size = result.array.size
        self._arrays, self._recipe = arrays, recipe
        self._call: LoopCall | None = None
        self._bound: Callable[[], None] | None = None
        self._by_loops = recipe is not None or (halves and len(sources) == 1)
        self._lookup: Lookup | None = None
        if function is not None and len(sources) == 1 and halves:
            self._lookup = Lookup() if key is None else context.workspace.lookup((key, to_even))
            if self._size >= MAP_FROM:
                self._tabulate()

    def execute(self) -> None:
        """Computes every block."""
        kernels = self._context.workspace.kernels
        if self._bound is None and kernels is not None:
            self._call = self._by_loop()
            self._bound = None if self._call is None else self._call.bound(kernels, self._report)
        if self._bound is not None:
            self._bound()
            return
        step = self._copy if self._copies else self._compute
        if self._lookup is not None:
            step = self._compute if self._table() is None else self._look_up
            self._lookup.computed += max(self._size, CALL)
        for block in self._blocks:
            step(*block)

    def calls(self, before: object) -> TaskCalls | None:
        """Those of one loop, for a part of the elements each."""
        if self._call is None:
            return None
        shape, lanes = self._arrays[-1].shape, lanes_for(self._size, self._context.workspace.threads)
        axis = next((axis for axis, extent in enumerate(shape) if extent >= lanes), 0)
        parts = portions(shape[axis], lanes)
        calls = [self._call] if len(parts) == 1 else [self._loop([_part(array, axis, part) for array in self._arrays])
                                                      for part in parts]
        return TaskCalls((Together.of(*([call] for call in calls if call is not None)),))

    def _by_loop(self) -> LoopCall | None:
        """What computes everything by the compiled loop; None where that cannot be, or not yet."""
        if not self._by_loops or not (self._recipe is not None or self._copies or self._table() is not None):
            return None
        found = self._loop(self._arrays)
        self._by_loops = found is not None
        return found

    def _loop(self, arrays: Sequence[np.ndarray]) -> LoopCall | None:
        """What computes some of the elements; None where operands have no form for the loop."""
        if self._recipe is not None:
            chunks = ChunkTask.of(arrays[:-1], arrays[-1], self._recipe)
            return None if chunks is None else chunks.call
        translation = TranslateTask.of(*arrays)
        return None if translation is None else translation.call(None if self._copies else self._table())

    def _table(self) -> Bits | None:
        """The results of every word, once they are known."""
        if self._lookup is None:
            return None
        if self._lookup.computed >= WORDS:
            self._tabulate()
        return self._lookup.table

    def _tabulate(self) -> None:
        assert self._lookup is not None
        assert self._function is not None
        if self._lookup.table is None:
            numbers = np.empty(WORDS, np.float32)
            decode(np.arange(WORDS, dtype=np.uint16), numbers)
            result = self._function(numbers)
            self._lookup.table = encode_even(result) if self._to_even else encode_away(result)

    def _look_up(self, source: np.ndarray, target: np.ndarray) -> None:
        assert self._lookup is not None
        assert self._lookup.table is not None
        bits = self._context.workspace.bits(source.shape)
        words = self._gathered(source)
        self._report.saw(words)
        self._lookup.table.take(words, out=bits, mode="clip")
        self._report.stored(bits)
        target[...] = bits

    def _copy(self, source: np.ndarray, target: np.ndarray) -> None:
        words = self._gathered(source)
        np.copyto(target, words)
        self._report.copied(words, target)

    def _gathered(self, words: np.ndarray) -> np.ndarray:
        """The same in one run of memory: what is read several times is read with its strides once."""
        if words.flags.c_contiguous:
            return words
        bits = self._context.workspace.bits(words.shape)
        np.copyto(bits, words)
        return bits

    def _compute(self, *block: np.ndarray) -> None:
        *raw, target = block
        numbers = []
        for place, source in enumerate(raw):
            values = self._context.workspace.floats(source.shape, place)
            read(source, values, self._report)
            numbers.append(values)
        result = numbers[0] if self._function is None else self._function(*numbers)
        write(result, target, self._context, to_even=self._to_even)
