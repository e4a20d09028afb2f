"""Reading sources and storing results by compiled loops: what is worked out once for operands that stay in place."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from openane.engine import Activation, Post
from openane.simulator.arithmetic.exact import SATURATION
from openane.simulator.arithmetic.half import Floats
from openane.simulator.calls import LoopCall, TaskCall, Together
from openane.simulator.kernels import NEUTRAL, Flat, Kernels, contiguous, placed
from openane.simulator.report import TaskReport
from openane.simulator.threads import cuts


class SourceReader:
    """Reads fp16 words of one operand as float32."""

    def __init__(self, source: Flat, inside: tuple[slice, ...] | None, shape: tuple[int, ...], relu: bool,
                 fill: float = 0) -> None:
        """Into an array of `shape` [five extents], at the places `inside` of it (its last dimensions); `fill`
        elsewhere."""
        self._source, self._padded, self._fill = source.elements, inside is not None, fill
        self._array, self._inside, self._shape, self._relu = source.owner, inside, shape, relu
        strides = contiguous(shape)
        self._start = sum(part.start * s for part, s in zip(inside, strides[-len(inside):], strict=True)
                          if part.start) if inside is not None else 0
        self._places = placed(source.shape, source.strides, strides)
        self._floor = np.float32(0 if relu else -np.inf)

    def __call__(self, kernels: Kernels, out: Floats, report: TaskReport) -> None:
        """`out` is contiguous, of the shape."""
        nan, infinite = self._load(kernels, out.reshape(-1))
        if nan or infinite:
            report.met(nan, infinite)

    def finite(self, kernels: Kernels, out: Floats) -> bool:
        """Reads into `out` (one run of memory); False where some are not finite, and `out` then holds nothing."""
        return self._load(kernels, out) == (0, 0)

    def calls(self, out: Floats, threads: int) -> list[TaskCall]:
        """What reads into `out` (one run of memory), where all are finite, by so many threads."""
        fill = [partial(out.fill, self._fill)] if self._padded else []
        return [*fill, Together.of(*([LoopCall("load", each._arguments(out[start:]), zeros=2)]
                                     for start, each in self._shared(threads)))]

    def _shared(self, threads: int) -> list[tuple[int, SourceReader]]:
        """Readers of parts, and where what they read begins."""
        array, (groups, channels, *extents) = self._array, self._shape
        found = []
        for part, some in cuts(groups, channels, array.size, threads):
            source = Flat.of(array[part, some])
            assert source is not None, "all of it has a form for the loop"
            shape = (part.stop - part.start, some.stop - some.start, *extents)
            found.append(((part.start * channels + some.start) * prod(extents),
                          SourceReader(source, self._inside, shape, self._relu, self._fill)))
        return found

    def _load(self, kernels: Kernels, out: Floats) -> tuple[int, int]:
        if self._padded:
            out.fill(self._fill)
        return kernels.load(*self._arguments(out))

    def _arguments(self, out: Floats) -> tuple[object, ...]:
        """What the loop is called with."""
        return self._source, self._places, self._floor, out[self._start:]

    def alike(self, other: SourceReader) -> bool:
        """Whether both read the same words to the same places."""
        first, second = (each._source.__array_interface__["data"][0] for each in (self, other))
        return first == second and (self._padded, self._start, self._floor, self._fill) == (
            other._padded, other._start, other._floor, other._fill) and np.array_equal(self._places, other._places)


class StageNumbers:
    """A post stage without a table as loops take it."""

    def __init__(self, limited: bool) -> None:
        """`limited`: sums have the accumulator's range."""
        self._limit = SATURATION if limited else np.inf
        self._post: Post | None = None
        self._known: dict[type[np.floating], np.ndarray] = {}

    def of(self, post: Post, kind: type[np.floating]) -> np.ndarray:
        """Range, bias, scale and least result, in the element type of the sums."""
        if post is not self._post:
            self._post, self._known = post, {}
        if kind not in self._known:
            self._known[kind] = np.array([self._limit, post.bias or NEUTRAL, post.scale,
                                          0 if post.activation is Activation.RELU else -np.inf], kind)
        return self._known[kind]


ALONE = (1, 0)
"""Sums of one part."""


class SumStorer:
    """Stores sums of one tile: bias row, range of the accumulator, post stage, rounding."""

    def __init__(self, target: np.ndarray, flat: Flat, channels: int, limited: bool) -> None:
        """Sums lie in one run of memory, in the target's shape; `channels` is the axis a bias belongs to, groups are
        the other one of the first two."""
        self._array, self._target, self._channels = target, flat, channels
        self._stage = StageNumbers(limited)
        self._kept: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, kernels: Kernels, sums: np.ndarray, bias: np.ndarray | None, post: Post,
                 report: TaskReport) -> None:
        """`sums` are float32 or float64. The stage has no table."""
        self.call(sums, bias, post).bound(kernels, report)()

    def call(self, sums: np.ndarray, bias: np.ndarray | None, post: Post, parts: tuple[int, int] = ALONE) -> LoopCall:
        """What stores the numbers that lie in `sums` then: every one of so many `parts`, which lie so far apart."""
        kind = sums.dtype.type
        settings = self._stage.of(post, kind)
        biases = NO_BIAS[kind] if bias is None else np.ascontiguousarray(bias, kind)
        sets, channels = biases.shape
        steps = (channels if sets > 1 else 0, 1 if channels > 1 else 0)
        if self._channels == 0:
            steps = steps[::-1]
        places = self._kept.get(steps + parts)
        if places is None:
            placing = placed(self._target.shape, self._target.strides, contiguous(self._target.shape),
                             (*steps, 0, 0, 0), apart=2 if any(steps) else 0)
            places = self._kept[steps + parts] = np.append(placing, parts)
        return LoopCall("store" if kind is np.float32 else "store_doubles",
                        (sums.reshape(-1), biases.reshape(-1), settings, self._target.elements, places),
                        stored=self._array)


NO_BIAS = {kind: np.full((1, 1), NEUTRAL, kind) for kind in (np.float32, np.float64)}


class ChannelLoop:
    """A tile of a convolution in which every channel has inputs of its own, from words to words."""

    def __init__(self, source: Flat, target: Flat, result: np.ndarray, stage: StageNumbers,
                 windows: tuple[int, ...], relu: bool) -> None:
        """`windows` as `compiled.windows.channels` takes them; `relu`: no source element is below zero."""
        self._source, self._target, self._result, self._stage = source.elements, target.elements, result, stage
        self._places, self._goals = (np.array([*each.shape, *each.strides], np.int64) for each in (source, target))
        self._windows, self._floor = windows, np.float32(0 if relu else -np.inf)

    def __call__(self, kernels: Kernels, weights: Floats, bias: np.ndarray | None, post: Post,
                 report: TaskReport) -> bool:
        """Finite `weights` [sets, channels, terms]. False, and nothing done, where a source element is not finite."""
        done, *found = kernels.channels(
            self._source, self._places, np.ascontiguousarray(weights),
            NO_BIAS[np.float32] if bias is None else np.ascontiguousarray(bias), self._stage.of(post, np.float32),
            self._target, self._goals, self._windows, self._floor)
        if done:
            report.surveyed(self._result, *found)
        return done


class PoolLoop:
    """Pooling of some planes by the compiled loop."""

    def __init__(self, source: Flat, target: Flat, result: np.ndarray, shape: tuple[int, ...],
                 inside: tuple[slice, ...], windows: tuple[int, ...], function: int, fill: float, scale: float,
                 relu: bool) -> None:
        """`shape` is that of the padded planes, `inside` the rows and columns of the source in it; `windows` are
        kernel and stride."""
        self._source, self._target, self._result = source.elements, target.elements, result
        self._places, self._goals = (np.array([*each.shape, *each.strides], np.int64) for each in (source, target))
        starts = (part.start for part in inside)
        self._settings = ((*windows, *shape[3:], *starts), function, np.float32(fill), np.float32(scale),
                          np.float32(0 if relu else -np.inf))

    @staticmethod
    def of(source: np.ndarray, result: np.ndarray, shape: tuple[int, ...], inside: tuple[slice, ...],
           windows: tuple[int, ...], function: int, fill: float, scale: float, relu: bool) -> PoolLoop | None:
        """None where an operand has no form for the loop."""
        if source.dtype != np.uint16 or result.dtype != np.uint16:
            return None
        flat, target = Flat.of(source), Flat.of(result)
        return None if flat is None or target is None else PoolLoop(flat, target, result, shape, inside, windows,
                                                                    function, fill, scale, relu)

    @property
    def call(self) -> LoopCall:
        """What pools all planes."""
        return LoopCall("pool", (self._source, self._places, self._target, self._goals, *self._settings), reads=True,
                        stored=self._result)
